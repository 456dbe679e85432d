/** Notifications of this browser (Web Push). The service worker is registered, and permission asked, on a click only. */
const WORKER = new URL("./push-worker.js", import.meta.url);

/** Browsers without a push service lack these. An iPhone has them in web apps on its home screen only. */
export function canNotify(key) {
  return Boolean(key) && "serviceWorker" in navigator && "PushManager" in window && Notification.permission !== "denied";
}

/** `reason`: "blocked" by the visitor or the browser, or "unavailable". */
class NoNotifications extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

/** Call it from a click: it asks for permission first, while the click counts. */
export async function subscribe(key) {
  if ((await Notification.requestPermission()) !== "granted") throw new NoNotifications("blocked");
  try {
    const { pushManager } = await activated(await navigator.serviceWorker.register(WORKER));
    return await subscribeWith(pushManager, key);
  } catch {
    throw new NoNotifications("unavailable"); // Some browsers have no push service, or block it in private windows.
  }
}

/** This browser's subscription, or null. */
export async function subscription() {
  const found = "PushManager" in window && (await navigator.serviceWorker?.getRegistration(WORKER));
  return found ? found.pushManager.getSubscription() : null;
}

export async function unsubscribe() {
  await (await subscription().catch(() => null))?.unsubscribe();
}

/** The worker's scope is not that of the page, so `navigator.serviceWorker.ready` would wait for ever. */
async function activated(registration) {
  const worker = registration.installing ?? registration.waiting;
  if (registration.active || !worker) return registration;
  await new Promise((resolve) => {
    worker.addEventListener("statechange", () => ["activated", "redundant"].includes(worker.state) && resolve());
  });
  return registration;
}

async function subscribeWith(pushManager, key) {
  const wanted = { userVisibleOnly: true, applicationServerKey: key };
  try {
    return await pushManager.subscribe(wanted);
  } catch (error) {
    // The server has a new key since.
    if (error.name !== "InvalidStateError") throw error;
    await (await pushManager.getSubscription())?.unsubscribe();
    return pushManager.subscribe(wanted);
  }
}
