/** The storefront of the sale in the address. */
import { render } from "../vendor/preact.mjs";
import { App } from "./app.js";
import { html } from "./html.js";

const saleId = decodeURIComponent(location.pathname.split("/")[2] ?? "");
render(html`<${App} saleId=${saleId} />`, document.getElementById("store"));
