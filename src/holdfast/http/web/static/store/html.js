/** Tagged-template markup: htm bound to Preact. Interpolated values become text, never markup. */
import htm from "../vendor/htm.mjs";
import { h } from "../vendor/preact.mjs";

export const html = htm.bind(h);
