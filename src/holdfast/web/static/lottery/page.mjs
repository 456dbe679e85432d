// Fetches what a lottery published, recomputes all of it, and shows whether it is right.

import { digestOf, entryOf, Order, seedHash } from "./draw.mjs";

const SHOWN = 20;
const byId = (id) => document.getElementById(id);
const saleId = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1));
const home = `/v1/sales/${encodeURIComponent(saleId)}`;

function element(name, text, className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

const fact = (name, value) => byId("facts").append(element("dt", name), element("dd", value));

function check(list, what, ours, told) {
  const isRight = ours === told;
  const text = isRight ? `${what} is ${ours}` : `${what} is ${ours}, but ${told} was published`;
  byId(list).append(element("li", text, isRight ? "right" : "wrong"));
  return isRight;
}

async function fetched(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer;
}

async function fetchEntries() {
  const entries = [];
  let next = `${home}/lottery/entries`;
  while (next) {
    const answer = await fetched(next);
    entries.push(...(await answer.text()).split("\n").filter(Boolean));
    byId("progress").textContent = `Read ${entries.length.toLocaleString()} entries…`;
    next = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
  }
  return entries;
}

function claimsOf(ticket) {
  const payload = ticket.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function given(text) {
  if (/^\d+$/.test(text)) return { arrival: Number(text) };
  try {
    return claimsOf(text);
  } catch {
    return null;
  }
}

async function showPlace(order, lottery, entries) {
  byId("own-checks").replaceChildren();
  const claims = given(byId("ticket").value.trim());
  if (!Number.isInteger(claims?.arrival)) {
    byId("place").textContent = "This is neither a ticket nor a number.";
    return;
  }
  const place = await order.placeOf(claims.arrival);
  byId("place").textContent = `Arrival number ${claims.arrival} has position ${place + 1}.`;
  if (claims.jti === undefined) return;
  check("own-checks", "The sale on the ticket", claims.sale, saleId);
  check("own-checks", "The hash of the seed when you joined", claims.seed_hash, lottery.seed_hash);
  if (claims.arrival < entries.length) {
    const entry = await entryOf(claims.sale, claims.sub, claims.jti);
    check("own-checks", `Your entry, line ${claims.arrival + 1} of the list,`, entry, entries[claims.arrival]);
  }
  if (claims.position !== undefined) check("own-checks", "Your position", place + 1, claims.position);
}

function offerPlace(order, lottery, entries) {
  byId("own").hidden = false;
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    showPlace(order, lottery, entries);
  });
  // A page that knows the ticket links here with it behind the #, which no server sees.
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket) {
    byId("ticket").value = ticket;
    showPlace(order, lottery, entries);
  }
}

function showFirst(arrivals, entries) {
  byId("order").hidden = false;
  arrivals.slice(0, SHOWN).forEach((arrival, place) => {
    const row = document.createElement("tr");
    row.append(element("td", place + 1), element("td", arrival), element("td", `${entries[arrival].slice(0, 16)}…`));
    byId("rows").append(row);
  });
}

async function recompute(lottery) {
  const entries = await fetchEntries();
  const isRight = [
    check("checks", "The seed's hash", await seedHash(lottery.seed), lottery.seed_hash),
    check("checks", "The length of the list", entries.length, lottery.entrants),
    check("checks", "The digest of the list", await digestOf(entries), lottery.digest),
  ].every(Boolean);
  byId("progress").textContent = "Computing everyone's place…";
  const order = await Order.of({ saleId, ...lottery });
  const arrivals = await order.arrivals();
  const all = arrivals.length.toLocaleString();
  byId("checks").append(element("li", `Each of ${all} places is given once`, "right"));
  byId("progress").textContent = isRight ? "All of it is right." : "Something is wrong.";
  showFirst(arrivals, entries);
  offerPlace(order, lottery, entries);
}

async function show() {
  if (!globalThis.crypto?.subtle) throw new Error("This browser computes hashes only on pages that came over HTTPS.");
  const now = await (await fetched(`${home}/now`)).json();
  document.title = `Check the draw of ${saleId}`;
  fact("Sale", saleId);
  if (!now.lottery) throw new Error("This sale has no lottery: its line is in the order of arrival.");
  fact("Hash of the seed", now.lottery.seed_hash);
  if (!now.lottery.seed) {
    byId("progress").textContent = "The draw is made when the sale opens. Note the hash, and come back then.";
    return;
  }
  fact("Seed", now.lottery.seed);
  fact("People on the list", now.lottery.entrants.toLocaleString());
  fact("Digest of the list", now.lottery.digest);
  await recompute(now.lottery);
}

show().catch((error) => {
  byId("progress").textContent = error.message;
});
