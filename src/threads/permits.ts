/**
 * A limit on what may be going on at once, counted in units: mails that are on the wire, or sent and not yet recorded (as
 * many may arrive twice after a crash, no more); bytes that are held in memory.
 */
type Permits = {
	/** Resolves when the copy may go on, in order of asking; asking again for the same one is free. */
	readonly take: (recipientId: string, units?: number) => Promise<void>;
	/** It is over: its outcome is on stable storage. */
	readonly giveBack: (recipientId: string) => void;
};

/** One that needs more units than there are goes when it is alone. */
export function createPermits(count: number): Permits {
	const held = new Map<string, number>();
	const waiting: Array<{readonly units: number; readonly grant: () => void}> = [];
	let free = count;

	function serve(): void {
		for (let next = waiting[0]; next && (next.units <= free || held.size === 0); next = waiting[0]) {
			waiting.shift();
			next.grant();
		}
	}

	return {
		take(recipientId, units = 1) {
			if (held.has(recipientId)) {
				return Promise.resolve();
			}
			return new Promise(resolve => {
				const grant = () => {
					if (!held.has(recipientId)) {
						held.set(recipientId, units);
						free -= units;
					}
					resolve();
				};
				waiting.push({units, grant});
				serve();
			});
		},
		giveBack(recipientId) {
			free += held.get(recipientId) ?? 0;
			held.delete(recipientId);
			serve();
		},
	};
}
