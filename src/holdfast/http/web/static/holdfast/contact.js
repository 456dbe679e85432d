/** Where the buyer gets messages. Nobody gets any without having asked. */
import * as paths from "../paths.mjs";

export class Contact {
  #session;

  constructor(session) {
    this.#session = session;
  }

  /** What the buyer asked for, or null. */
  async find() {
    try {
      return (await this.#session.requestOnce("GET", paths.getContact())).body;
    } catch (error) {
      if (error.reason === "contact_not_found") return null;
      throw error;
    }
  }

  /** `{email, locale, next_sale}`: see `PUT /v1/me/contact`. */
  async ask(wanted) {
    return (await this.#session.requestOnce("PUT", paths.putContact(), { body: wanted })).body;
  }

  /** Ends all messages. */
  async end() {
    await this.#session.requestOnce("DELETE", paths.deleteContact());
  }
}
