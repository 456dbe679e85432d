/** The list of sales, in the visitor's language, currency format and time zone. It can be read without this script. */
import { dateTime, isSameDay, money } from "./format.js";
import { LANGUAGES, initialLanguage, regionOf } from "./language.js";

const language = initialLanguage();
const region = regionOf(language);
const t = LANGUAGES[language];

function rewrite(selector, textOf) {
  for (const element of document.querySelectorAll(selector)) element.textContent = textOf(element.dataset, element);
}

function opening(at, now) {
  return t.before.opensAt(dateTime(at, now, region), isSameDay(at, now));
}

document.documentElement.lang = language;
document.title = t.front.title;
rewrite("[data-word]", ({ word }) => t.front[word]);
rewrite("[data-state]", ({ state }) => t.stock[state]);
rewrite("[data-amount]", ({ amount, currency }) => money({ amount: Number(amount), currency }, region));
rewrite(".sales time", (_, { dateTime: at }) => opening(Date.parse(at), Date.now()));
