import {createCatalog} from '../accept/catalog.ts';
import {type AcceptOptions, createAccept} from '../accept/send.ts';
import {createAcceptWrite} from '../accept/write.ts';
import {createAuth} from '../api/auth.ts';
import {createFailureLimit, createRateLimits} from '../api/rate-limit.ts';
import type {LiveSettings} from '../config/settings.ts';
import {findKey, noteKeyUse} from '../store/api-keys.ts';
import {sharePart} from '../store/nodes.ts';
import type {Context} from './context.ts';

type IntakeContext = Pick<Context, 'store' | 'clock' | 'newId'> & {
	readonly live: () => Pick<LiveSettings, 'rateLimit' | 'authFailures' | 'idempotencyRetention'>;
};

/** Who may send, how much, and what takes messages in: the same for HTTP and SMTP. */
export function createIntake(
	{live, store, clock, newId}: IntakeContext,
	accepting: Pick<AcceptOptions, 'onWriting' | 'onAccepted'>,
) {
	const {reader, writer} = store;
	const catalog = createCatalog(reader);
	const shared = store.dialect.isShared;
	const limits = createRateLimits(clock, () => live().rateLimit, shared ? part => sharePart(reader, part) : null);
	const countFailure = createFailureLimit(clock, () => live().authFailures);
	const auth = createAuth({
		findKey: hash => findKey(reader, hash),
		clock,
		limits,
		countFailure,
		onUse: (id, at) => noteKeyUse(writer, id, at),
	});
	const keyRetention = () => live().idempotencyRetention;
	const acceptWrite = createAcceptWrite({clock, newId, keyRetention});
	return {
		accept: createAccept({catalog, reader, writer, clock, acceptWrite, keyRetention, ...accepting}),
		auth,
		limits,
		countFailure,
		/** What is remembered of the store is read again. */
		forget(): void {
			catalog.clear();
			auth.clear();
		},
	};
}

export type Intake = ReturnType<typeof createIntake>;
