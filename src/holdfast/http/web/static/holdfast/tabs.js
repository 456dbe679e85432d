/** Tells the other tabs of this browser that a purchase in a sale has changed. */
const PREFIX = "holdfast:1:";

export class Tabs {
  #channel = null;

  constructor(saleId, onChange) {
    try {
      this.#channel = new BroadcastChannel(PREFIX + saleId);
      this.#channel.onmessage = ({ data }) => onChange(data?.buyer);
    } catch {
      // Not available: each tab finds out by itself, a little later.
    }
  }

  tell(buyer) {
    this.#channel?.postMessage({ buyer });
  }

  close() {
    this.#channel?.close();
    this.#channel = null;
  }
}

/** Calls `onChange` whenever another tab, or this one, has changed a purchase. Returns a function that stops it. */
export function watchTabs(saleId, onChange) {
  const tabs = new Tabs(saleId, onChange);
  return () => tabs.close();
}
