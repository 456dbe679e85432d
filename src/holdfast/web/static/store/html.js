/** Markup in plain modules: htm for Preact. Whatever is put in is text, never markup. */
import htm from "../vendor/htm.mjs";
import { h } from "../vendor/preact.mjs";

export const html = htm.bind(h);
