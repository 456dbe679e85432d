/** Shows the notifications of a visitor who asked for them. It controls no page and fetches nothing. */
addEventListener("push", (event) => {
  const { title, body, url, tag } = event.data.json();
  event.waitUntil(registration.showNotification(title, { body, tag, data: { url } }));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(showPage(event.notification.data.url));
});

/** The tab that shows it already, or a new one. */
async function showPage(url) {
  const tabs = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const tab = tabs.find((each) => new URL(each.url).pathname === url);
  return tab ? tab.focus() : clients.openWindow(url);
}
