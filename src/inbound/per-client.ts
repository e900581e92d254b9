/** How many sessions each client has. */
export function createPerClient(most: number) {
	const counts = new Map<string, number>();
	return {
		/** False: it has as many as it may. */
		enter(client: string): boolean {
			const count = counts.get(client) ?? 0;
			if (count >= most) {
				return false;
			}
			counts.set(client, count + 1);
			return true;
		},
		leave(client: string): void {
			const count = counts.get(client) ?? 0;
			if (count > 1) {
				counts.set(client, count - 1);
			} else {
				counts.delete(client);
			}
		},
	};
}
