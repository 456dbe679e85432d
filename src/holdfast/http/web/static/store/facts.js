/** What the server wrote into the page: the sale and the configuration; null if it could not. */
function read() {
  try {
    return JSON.parse(document.getElementById("facts").textContent);
  } catch {
    return {};
  }
}

const { sale = null, config = null } = read();

export const FACTS = { sale, config };
