/** How long the queue waits before it asks a failing store again, milliseconds. */
export const storeRetryMs = 1000;
