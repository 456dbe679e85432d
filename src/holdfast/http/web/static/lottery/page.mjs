// Fetches what a lottery published, recomputes it, and shows whether it matches.

import { beaconOf, digestOf, entryOf, Order, seedHash } from "./draw.mjs";
import * as paths from "../paths.mjs";

const ROWS = 20;
const byId = (id) => document.getElementById(id);
const saleId = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1));

function element(name, text, className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

const fact = (name, value) => byId("facts").append(element("dt", name), element("dd", value));

function check(list, label, computed, published) {
  const matches = computed === published;
  const text = matches ? `${label}: ${computed}` : `${label}: computed ${computed}, but ${published} was published`;
  byId(list).append(element("li", text, matches ? "match" : "mismatch"));
  return matches;
}

// Servers limit the rate of long lists and say when to request the next portion.
const ATTEMPTS = 20;

async function fetchOk(path) {
  let response = await fetch(path);
  for (let attempt = 1; response.status === 503 && attempt < ATTEMPTS; attempt++) {
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    response = await fetch(path);
  }
  if (!response.ok) throw new Error((await response.json()).detail);
  return response;
}

async function fetchEntries() {
  const entries = [];
  let next = paths.lotteryEntries(saleId);
  while (next) {
    const response = await fetchOk(next);
    entries.push(...(await response.text()).split("\n").filter(Boolean));
    byId("progress").textContent = `Loaded ${entries.length.toLocaleString()} entries…`;
    next = /<([^>]+)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
  }
  return entries;
}

function claimsOf(ticket) {
  const payload = ticket.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function parseInput(text) {
  if (/^\d+$/.test(text)) return { number: Number(text) };
  try {
    const claims = claimsOf(text);
    return { ...claims, number: claims.entry ?? claims.arrival };
  } catch {
    return null;
  }
}

async function showPlace(order, lottery, entries) {
  byId("own-checks").replaceChildren();
  const claims = parseInput(byId("ticket").value.trim());
  if (!Number.isInteger(claims?.number)) {
    byId("place").textContent = "Enter a ticket or an entry number.";
    return;
  }
  const place = await order.placeOf(claims.number);
  byId("place").textContent = `Entry number ${claims.number} has position ${place + 1}.`;
  if (claims.jti === undefined) return;
  check("own-checks", "Sale on the ticket", claims.sale, lottery.line_id ?? saleId);
  check("own-checks", "Seed hash when you joined", claims.seed_hash, lottery.seed_hash);
  if (claims.beacon_source !== undefined || lottery.beacon_source !== undefined) {
    check("own-checks", "Public value named when you joined", claims.beacon_source, lottery.beacon_source);
  }
  if (claims.number < entries.length) {
    const entry = await entryOf(claims.sale, claims.sub, claims.jti);
    check("own-checks", `Your entry, line ${claims.number + 1} of the list`, entry, entries[claims.number]);
  }
  if (claims.position !== undefined) check("own-checks", "Your position", place + 1, claims.position);
}

function offerOwnCheck(order, lottery, entries) {
  byId("own").hidden = false;
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    showPlace(order, lottery, entries);
  });
  // The storefront can link here with the ticket in the fragment, which is never sent to a server.
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket) {
    byId("ticket").value = ticket;
    showPlace(order, lottery, entries);
  }
}

function showFirst(numbers, entries) {
  byId("order").hidden = false;
  numbers.slice(0, ROWS).forEach((number, place) => {
    const row = document.createElement("tr");
    row.append(element("td", place + 1), element("td", number), element("td", `${entries[number].slice(0, 16)}…`));
    byId("rows").append(row);
  });
}

/** Draws of earlier versions have no beacon. */
async function checkBeacon({ digest, beacon, beacon_value: value = "" }) {
  return beacon === undefined ? [] : [check("checks", "Beacon", await beaconOf(digest, value), beacon)];
}

async function recompute(lottery) {
  const entries = await fetchEntries();
  const matches = [
    check("checks", "Seed hash", await seedHash(lottery.seed), lottery.seed_hash),
    check("checks", "Number of entries", entries.length, lottery.entrants),
    check("checks", "Digest of the list", await digestOf(entries), lottery.digest),
    ...(await checkBeacon(lottery)),
  ].every(Boolean);
  byId("progress").textContent = "Computing all places…";
  const order = await Order.of({ ...lottery, saleId: lottery.line_id ?? saleId });
  const numbers = await order.numbers();
  const total = numbers.length.toLocaleString();
  byId("checks").append(element("li", `All ${total} places assigned exactly once`, "match"));
  byId("progress").textContent = matches ? "All checks passed." : "Some checks failed.";
  showFirst(numbers, entries);
  offerOwnCheck(order, lottery, entries);
}

async function show() {
  if (!globalThis.crypto?.subtle) throw new Error("This check needs HTTPS: browsers compute hashes on secure pages only.");
  const now = await (await fetchOk(paths.now(saleId))).json();
  document.title = `Verify the draw · ${saleId}`;
  fact("Sale", saleId);
  if (!now.lottery) throw new Error("This sale has no lottery. It is first come, first served.");
  fact("Seed hash", now.lottery.seed_hash);
  if (now.lottery.beacon_source) fact("Public value", now.lottery.beacon_source);
  if (!now.lottery.seed) {
    byId("progress").textContent = "The draw takes place when the sale opens. Save the seed hash and come back then.";
    return;
  }
  fact("Seed", now.lottery.seed);
  fact("Participants", now.lottery.entrants.toLocaleString());
  fact("Digest of the list", now.lottery.digest);
  if (now.lottery.beacon_value) fact("Its value", now.lottery.beacon_value);
  if (now.lottery.beacon) fact("Beacon", now.lottery.beacon);
  await recompute(now.lottery);
}

show().catch((error) => {
  byId("progress").textContent = error.message;
});
