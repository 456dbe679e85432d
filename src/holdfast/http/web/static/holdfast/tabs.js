/**
 * Tells the other tabs of this browser that a purchase in a sale has changed.
 *
 * A message may arrive before the storage that the other tab wrote is visible here, so it carries the reservation; and
 * a tab may open its channel too late for a message, so changes of the storage are watched as well.
 */
const PREFIX = "holdfast:1:";

export class Tabs {
  #channel = null;
  #onStorage;

  /** Calls `onChange({buyer, reservation})`; `reservation` is null if nothing has been granted. */
  constructor(saleId, onChange) {
    const prefix = `${PREFIX}${saleId}:`;
    this.#onStorage = ({ key, newValue }) => {
      if (key?.startsWith(prefix)) onChange({ buyer: key.slice(prefix.length), reservation: reservationIn(newValue) });
    };
    globalThis.addEventListener?.("storage", this.#onStorage);
    try {
      this.#channel = new BroadcastChannel(PREFIX + saleId);
      this.#channel.onmessage = ({ data }) => onChange({ buyer: data?.buyer, reservation: data?.reservation ?? null });
    } catch {
      // Not available: each tab finds out by itself, a little later.
    }
  }

  tell(buyer, reservation) {
    this.#channel?.postMessage({ buyer, reservation });
  }

  close() {
    globalThis.removeEventListener?.("storage", this.#onStorage);
    this.#channel?.close();
    this.#channel = null;
  }
}

function reservationIn(stored) {
  try {
    return JSON.parse(stored)?.reservation ?? null;
  } catch {
    return null;
  }
}

/** Calls `onChange` whenever another tab, or this one, has changed a purchase. Returns a function that stops it. */
export function watchTabs(saleId, onChange) {
  const tabs = new Tabs(saleId, onChange);
  return () => tabs.close();
}
