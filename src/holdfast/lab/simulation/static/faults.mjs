// The fault buttons, and what each one actually does.

import { html } from "../console/html.mjs";
import { isSelling, seconds, usesRedis } from "./format.mjs";

const redisText = (snapshot) =>
  usesRedis(snapshot)
    ? "kill -9 to both Redis servers, back after 2 s: Holdfast's with its log, the shops' cache empty."
    : "kill -9 to the shops' Redis; it comes back empty after 2 s. Holdfast on SQLite uses none.";
const databaseText = (snapshot) =>
  usesRedis(snapshot)
    ? "Stops every PostgreSQL process for 4 s, and locks the shops' SQL files as long."
    : "Locks every SQL file against writing for 4 s, Holdfast's ledger too.";

const FAULTS = [
  { fault: "redis", label: "Kill Redis", about: redisText },
  { fault: "database", label: "Freeze the database", about: databaseText },
  { fault: "server", label: "Kill Holdfast", about: () => "kill -9 to the Holdfast server, and starts it again. The shops stay up." },
];

export function Faults({ setup, snapshot, order }) {
  const isActive = (fault) => snapshot.faults.some((note) => note.fault === fault && !note.is_over);
  const canUse = (fault) => isSelling(snapshot) && !isActive(fault) && (fault !== "redis" || setup.has_valkey);
  return html`
    <section class="card faults" aria-labelledby="faults-title">
      <h2 id="faults-title">The faults</h2>
      <p class="quiet">${isSelling(snapshot) ? "They are real, and end by themselves." : "Available while buyers arrive. They are real, and end by themselves."}</p>
      ${FAULTS.map(({ fault, label, about }) => {
        const missing = fault === "redis" && !setup.has_valkey;
        return html`
          <div class="fault" key=${fault}>
            <button type="button" class="button ${isActive(fault) ? "active" : ""}" aria-describedby="about-${fault}"
              disabled=${!canUse(fault)} onClick=${() => order("POST", "/simulation/faults", { fault })}>
              ${isActive(fault) ? "Under way…" : label}
            </button>
            <p id="about-${fault}">${missing ? "No Redis here: pip install 'holdfast[bench]'." : about(snapshot)}</p>
          </div>`;
      })}
      <div class="fault">
        <button type="button" class="button ${snapshot.is_duplicating ? "active" : ""}" aria-describedby="about-duplicates"
          aria-pressed=${snapshot.is_duplicating ? "true" : "false"} onClick=${() => order("PUT", "/simulation/duplicates", { is_on: !snapshot.is_duplicating })}>
          Duplicate every click
        </button>
        <p id="about-duplicates">Each click is sent twice at once, from now on. At Holdfast both carry one idempotency key.</p>
      </div>
      <div class="hints">
        <h3>What to look for</h3>
        <ul>
          <li>A cache that comes back empty sells everything once more: Redis DECR.</li>
          <li>While the database is frozen, everybody who has read “1 left” will buy it: check, pay, then write.</li>
          <li>A double click is two orders, even where the stock is counted right: conditional UPDATE.</li>
          <li>Holdfast on Redis keeps promising while PostgreSQL is frozen: the settlement queue grows, then empties.</li>
        </ul>
      </div>
    </section>`;
}

export function FaultLog({ snapshot }) {
  if (snapshot.faults.length === 0) return null;
  return html`
    <section class="card log" aria-labelledby="log-title">
      <h2 id="log-title">What was done to it</h2>
      <ol>
        ${snapshot.faults.map(
          (note) => html`
            <li><span class="figures quiet">${seconds(note.at_s)}</span> <span>${note.text}</span>
              ${!note.is_over && html` <span class="tag warn">now</span>`}</li>`,
        )}
      </ol>
    </section>`;
}
