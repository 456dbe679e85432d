/** One figure with its name, in a list of class `facts`. */
import { html } from "../html.js";

export const Fact = ({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
