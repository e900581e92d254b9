import type {SmtpConnection} from './smtp-connection.ts';

/** What ends a try from outside: its deadline, and a stop that spares mail whose data is under way. */
export type TryLimits = {
	/** The connection that is in use from now on. */
	readonly use: (connection: SmtpConnection) => void;
	/** Whether the data is being sent, so that the mail may be delivered. */
	readonly committed: (committed: boolean) => void;
	/** Whether no other conversation may begin. */
	readonly over: () => boolean;
	readonly done: () => void;
};

export function createTryLimits(deadlineMs: number, signal?: AbortSignal): TryLimits {
	let connection: SmtpConnection | null = null;
	let isCommitted = false;
	let late = false;
	const deadline = setTimeout(() => {
		late = true;
		connection?.fail(`the attempt took longer than ${deadlineMs} ms`);
	}, deadlineMs);
	const stop = () => {
		if (!isCommitted) {
			connection?.fail('stopped');
		}
	};
	signal?.addEventListener('abort', stop, {once: true});
	return {
		use(used) {
			connection = used;
		},
		committed(committed) {
			isCommitted = committed;
		},
		over: () => late || signal?.aborted === true,
		done() {
			clearTimeout(deadline);
			signal?.removeEventListener('abort', stop);
		},
	};
}
