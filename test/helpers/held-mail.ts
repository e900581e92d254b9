import type {Answer, FakeConnection} from './fake-mx.ts';

/** A host that answers the end of a mail when the test says so. */
export type HeldMail = {
	/** Connections that wait for the answer to their mail. */
	readonly waiting: FakeConnection[];
	/** For `dot` of a scripted host. */
	readonly dot: (line: string, connection: FakeConnection) => Answer | undefined;
	/** Answers those who wait. */
	readonly answer: (reply: string) => void;
	/** Mails that were told `250`, or were not held. */
	readonly taken: () => number;
	/** From now on nobody waits (`true`), or everybody does. */
	readonly open: (opened: boolean) => void;
};

export function holdMail(): HeldMail {
	const waiting: FakeConnection[] = [];
	let opened = false;
	let taken = 0;

	function answer(reply: string): void {
		taken += reply.startsWith('250') ? waiting.length : 0;
		for (const connection of waiting.splice(0)) {
			connection.say(`${reply}\r\n`);
		}
	}

	return {
		waiting,
		dot(_line, connection) {
			if (opened) {
				taken += 1;
				return undefined;
			}
			waiting.push(connection);
			return {bytes: ''};
		},
		answer,
		taken: () => taken,
		open(now) {
			opened = now;
			if (now) {
				answer('250 2.0.0 Ok: queued');
			}
		},
	};
}
