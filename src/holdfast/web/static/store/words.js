/** Which language: the reader's choice, else the browser's first that we have, else English. */
import de from "./words/de.js";
import en from "./words/en.js";

export const LANGUAGES = { en, de };
const CHOICE = "holdfast:language";

export function firstLanguage() {
  const wanted = [chosen(), ...navigator.languages].filter(Boolean).map((tag) => tag.slice(0, 2));
  return wanted.find((language) => language in LANGUAGES) ?? "en";
}

/** Dates and money as the reader's own region writes them, where it speaks the language. */
export function regionOf(language) {
  return navigator.languages.find((tag) => tag.startsWith(`${language}-`)) ?? language;
}

function chosen() {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null;
  }
}

export function choose(language) {
  try {
    localStorage.setItem(CHOICE, language);
  } catch {
    // Then it is chosen for this page.
  }
}
