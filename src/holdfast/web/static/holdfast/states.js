/**
 * The states of buying, and which may follow which. Nothing here touches the network, the clock or the page.
 *
 *   looking ─▶ upcoming ─▶ proving ─▶ waiting ─▶ admitted ─▶ reserving ─▶ cart ─▶ paying ─▶ confirmed | declined
 *                                                               ▲  ▼
 *                                                              hoping              refused: from anywhere
 *
 * `confirmed`, `declined` and `refused` are the end. An answer that comes late, after the end or for a state that was
 * left, changes nothing.
 */
const FOLLOWS = {
  looking: ["upcoming", "proving", "waiting", "admitted", "reserving", "cart", "paying", "confirmed", "declined"],
  upcoming: ["reserving"],
  proving: ["waiting"],
  waiting: ["proving", "admitted"],
  admitted: ["reserving"],
  reserving: ["cart", "paying", "confirmed", "declined", "hoping"],
  hoping: ["reserving"],
  cart: ["paying", "confirmed", "declined"],
  paying: ["confirmed", "declined"],
  confirmed: [],
  declined: [],
  refused: [],
};

export const START = Object.freeze({ name: "looking", trouble: null, sale: null, now: null, buyer: null });

/** What is true of the buyer's visit as a whole goes with them from state to state; the rest belongs to one state. */
const CARRIED = ["sale", "now", "buyer"];

export const isOver = (state) => FOLLOWS[state.name].length === 0;

/**
 * The state after an event. `{to, ...facts}` enters a state, `{...facts}` adds to the one that is.
 *
 * `from`, if given, is the state that the event is about: when it was left meanwhile, the event is forgotten.
 */
export function next(state, { to = state.name, from = state.name, ...facts }) {
  if (from !== state.name) return state;
  if (to === state.name) return Object.freeze({ ...state, ...facts });
  if (isOver(state) || (to !== "refused" && !FOLLOWS[state.name].includes(to))) return state;
  const carried = Object.fromEntries(CARRIED.map((name) => [name, state[name]]));
  return Object.freeze({ ...carried, trouble: null, ...facts, name: to });
}
