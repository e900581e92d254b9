/** The user and the password of each URL of a route, percent-encoded. */
const logins = /(:\/\/[^:@/?#,]*):([^@/?#,]*)@/g;

/**
 * A workspace's route for the store, or back from it: only the passwords in it are put through `change`, so that what is
 * stored can be shown (masked) without a key.
 */
export function withPasswords(route: string, change: (password: string) => string): string {
	return route.replace(
		logins,
		(_, start: string, password: string) => `${start}:${encodeURIComponent(change(decodeURIComponent(password)))}@`,
	);
}

/** Whether the route holds a password. */
export function hasPassword(route: string): boolean {
	return route.search(logins) !== -1;
}
