/** So many mails may be on the wire, or sent and not yet recorded: as many may arrive twice after a crash, no more. */
export type Permits = {
	/** Resolves when the mail may go; asking again for the same one is free. */
	readonly take: (recipientId: string) => Promise<void>;
	/** The outcome is on stable storage. */
	readonly giveBack: (recipientId: string) => void;
};

export function createPermits(count: number): Permits {
	const held = new Set<string>();
	const waiting: Array<() => void> = [];
	return {
		take(recipientId) {
			if (held.has(recipientId)) {
				return Promise.resolve();
			}
			if (held.size < count) {
				held.add(recipientId);
				return Promise.resolve();
			}
			return new Promise(resolve => {
				waiting.push(() => {
					held.add(recipientId);
					resolve();
				});
			});
		},
		giveBack(recipientId) {
			if (held.delete(recipientId)) {
				waiting.shift()?.();
			}
		},
	};
}
