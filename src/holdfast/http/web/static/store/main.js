/** Entry point: renders the sale named in the URL, /s/{sale_id}. */
import { render } from "../vendor/preact.mjs";
import { App } from "./app.js";
import { applyBrand } from "./brand.js";
import { FACTS } from "./facts.js";
import { html } from "./html.js";

applyBrand(FACTS.sale?.brand);
const saleId = decodeURIComponent(location.pathname.split("/")[2] ?? "");
render(html`<${App} saleId=${saleId} />`, document.getElementById("store"));
