/**
 * The purchase as a state machine. Pure: no network, no clock, no page.
 *
 *   looking ─▶ upcoming ─▶ proving ─▶ waiting ─▶ admitted ─▶ reserving ─▶ cart ─▶ paying ─▶ confirmed | declined
 *                                                               ▲  ▼           ▲   ▼
 *                                                              hoping          (declined: pay again)
 *
 * `refused` follows any state. `confirmed`, `declined` and `refused` are final. Late events, for a final state or one already left, are ignored.
 */
const TRANSITIONS = {
  looking: ["upcoming", "proving", "waiting", "admitted", "reserving", "cart", "paying", "confirmed", "declined"],
  upcoming: ["proving", "reserving"],
  proving: ["waiting", "reserving"],
  waiting: ["proving", "admitted"],
  admitted: ["reserving"],
  reserving: ["cart", "paying", "confirmed", "declined", "hoping", "proving"],
  hoping: ["proving", "reserving"],
  cart: ["paying", "confirmed", "declined"],
  paying: ["cart", "confirmed", "declined"],
  confirmed: [],
  declined: [],
  refused: [],
};

export const INITIAL = Object.freeze({ name: "looking", trouble: null, sale: null, now: null, buyer: null });

/** Fields carried over to the next state; all others belong to one state. */
const CARRIED = ["sale", "now", "buyer"];

export const isFinal = (state) => TRANSITIONS[state.name].length === 0;

/**
 * The state after an event. `{to, ...fields}` enters a state, `{...fields}` updates the current one.
 * An event with `from` is ignored unless that is the current state.
 */
export function next(state, { to = state.name, from = state.name, ...fields }) {
  if (from !== state.name) return state;
  if (to === state.name) return Object.freeze({ ...state, ...fields });
  if (isFinal(state) || (to !== "refused" && !TRANSITIONS[state.name].includes(to))) return state;
  const carried = Object.fromEntries(CARRIED.map((name) => [name, state[name]]));
  return Object.freeze({ ...carried, trouble: null, ...fields, name: to });
}
