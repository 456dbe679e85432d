// Ctrl+K or ⌘K: go anywhere by typing.
import { get } from "./api.mjs";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs";
import * as paths from "../paths.mjs";

const SHOWN = 8;

export function Palette({ tabs }) {
  const dialog = useRef(null);
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState("");
  // By its address: the list may grow while it is open, as sales arrive.
  const [chosenTo, setChosenTo] = useState(null);
  const [sales, setSales] = useState([]);
  useEffect(() => {
    const press = (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      setText("");
      setChosenTo(null);
      setOpen(true);
      get(`${paths.listSales()}?limit=100`).then((page) => setSales(page.data), () => {});
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  // Before the browser handles the next key: an effect after the paint would lose what is typed meanwhile.
  useLayoutEffect(() => { if (isOpen) dialog.current.showModal(); }, [isOpen]);
  if (!isOpen) return null;
  const targets = targetsOf(text.trim(), tabs, sales);
  const chosen = Math.max(targets.findIndex((target) => target.to === chosenTo), 0);
  const go = (target) => {
    setOpen(false);
    if (target) location.hash = target.to;
  };
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !targets.length) return;
    event.preventDefault();
    setChosenTo(targets[(chosen + step + targets.length) % targets.length].to);
  };
  const type = (event) => {
    setText(event.target.value);
    setChosenTo(null);
  };
  return html`<dialog ref=${dialog} class="palette" aria-label="Go to" onCancel=${(event) => { event.preventDefault(); setOpen(false); }}>
    <form onSubmit=${(event) => { event.preventDefault(); go(targets[chosen]); }}>
      <input role="combobox" aria-expanded="true" aria-controls="palette-targets" aria-activedescendant=${targets.length ? `target-${chosen}` : undefined} aria-label="Sale, page, buyer or order"
        placeholder="Sale, page, buyer or order" autocomplete="off" spellcheck="false" value=${text} onInput=${type} onKeyDown=${move} />
      <ul id="palette-targets" role="listbox" aria-label="Where to">${targets.map((target, index) => html`<li key=${target.to} id="target-${index}" role="option" aria-selected=${index === chosen}
        onClick=${() => go(target)}>${target.label}<span class="quiet">${target.kind}</span></li>`)}</ul>
    </form>
  </dialog>`;
}

const ORDER_NUMBER = /^[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}$/i;

/** What was typed may be the ID of a buyer or an order, which nobody can tell here; so those come last. */
function targetsOf(text, tabs, sales) {
  const wanted = text.toLowerCase();
  const matches = (...names) => names.some((name) => name.toLowerCase().includes(wanted));
  const pages = tabs.filter(([, label]) => matches(label)).map(([tab, label]) => ({ label, kind: "page", to: `#/${tab}` }));
  const found = sales.filter((sale) => matches(sale.name, sale.sale_id)).map((sale) => ({ label: sale.name, kind: `sale ${sale.sale_id}`, to: `#/sale/${encodeURIComponent(sale.sale_id)}` }));
  const named = encodeURIComponent(text);
  const byId = !text ? [] : text.startsWith("ord_") || ORDER_NUMBER.test(text)
    ? [{ label: text, kind: "order", to: `#/orders/${named}` }]
    : [{ label: text, kind: "buyer", to: `#/buyers/${named}` }];
  return [...(text ? [...found, ...pages] : [...pages, ...found]).slice(0, SHOWN), ...byId];
}
