/** The language: the visitor's choice, else the sale's, else the first of the browser's languages that we have, else English. */
import de from "./locales/de.js";
import { FACTS } from "./facts.js";
import en from "./locales/en.js";

export const LANGUAGES = { en, de };
const STORAGE_KEY = "holdfast:language";

export function initialLanguage() {
  const wanted = [savedLanguage(), FACTS.sale?.locale, ...navigator.languages].filter(Boolean).map((tag) => tag.slice(0, 2));
  return wanted.find((language) => language in LANGUAGES) ?? "en";
}

/** The visitor's own region of this language, for dates and money. */
export function regionOf(language) {
  return navigator.languages.find((tag) => tag.startsWith(`${language}-`)) ?? language;
}

function savedLanguage() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

export function saveLanguage(language) {
  try {
    localStorage.setItem(STORAGE_KEY, language);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
}
