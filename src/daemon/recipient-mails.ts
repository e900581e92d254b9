import {existsSync} from 'node:fs';
import {join} from 'node:path';
import type {Settings} from '../config/settings.ts';
import {capturedFolder, capturedName} from '../deliver/capture.ts';
import type {Clock} from '../kit/clock.ts';
import {readRegular} from '../kit/regular-file.ts';
import {inWorker} from '../render/in-worker.ts';
import {listAttachments} from '../store/messages.ts';
import {readRecipient} from '../store/queue/claims.ts';
import type {MasterKeys, Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {listVariants} from '../store/templates.ts';
import type {Remade, Remake} from '../threads/remake.ts';
import {createSigning, feedbackOf, makeJob} from './make-job.ts';

export type RecipientMailsOptions = {
	readonly settings: Pick<Settings, 'dataDir' | 'tokenLifetime' | 'returnPathDomain'> &
		Parameters<typeof feedbackOf>[0];
	readonly store: Store;
	readonly vault: Vault;
	readonly secrets: MasterKeys;
	readonly clock: Clock;
	/** Base of the links in mail. */
	readonly publicUrl: () => string;
};

/** No mail of ours is larger, whatever is attached to it. */
const mostCaptured = 128 * 1024 ** 2;
const thread = new URL('../threads/remake.js', import.meta.url);
const makeLimitMs = 2000;
// As makers have them.
const limits = {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4};

/** The mail of copies, to be looked at. */
export function createRecipientMails({settings, store, vault, secrets, clock, publicUrl}: RecipientMailsOptions) {
	return {
		/** What was captured of a copy; null: nothing was. */
		async captured(recipientId: string): Promise<Uint8Array | null> {
			const file = capturedFile(settings.dataDir, recipientId);
			return file === null ? null : await readRegular(file, mostCaptured, 'refuse');
		},

		/**
		 * The copy's mail as the daemon would make it now: the signatures and the tokens of its links are other ones. That of a
		 * test key has no signature.
		 */
		async remade(workspaceId: string, recipientId: string): Promise<Remade | 'no_sender'> {
			const recipient = await readRecipient(store.reader, workspaceId, recipientId);
			if (!recipient?.domain_id) {
				return 'no_sender';
			}
			const signing = createSigning(store, vault, clock);
			const {keyIds, returnPathDomain} = await signing.of(recipient.domain_id);
			const variants = await listVariants(store.reader, recipient.version_id);
			const input: Remake = {
				options: {tokenLifetimeMs: settings.tokenLifetime, ...feedbackOf(settings)},
				keys: secrets,
				publicUrl: publicUrl(),
				now: clock.now(),
				job: makeJob(recipient, {
					attachments: recipient.attachments > 0 ? await listAttachments(store.reader, recipient.message_id) : [],
					signing: '',
					returnPathDomain: returnPathDomain ?? settings.returnPathDomain,
				}),
				variants: variants.map((variant, position) => ({...variant, id: `${recipient.version_id}/${position}`})),
				// Else a test key could have a mail signed that it may not send, and post it elsewhere.
				signing: recipient.mode === 'live' ? await signing.keys(keyIds) : [],
			};
			const ended = await inWorker<Remade>(thread, input, {timeoutMs: makeLimitMs, limits, ahead: true});
			return ended.ok
				? ended.result
				: {ok: false, message: `rendering takes too ${ended.spent === 'time' ? 'long' : 'much memory'}`};
		},
	};
}

/** The file in which a copy was captured, null if it was not. */
export function capturedFile(dataDir: string, recipientId: string): string | null {
	const file = join(capturedFolder(dataDir), capturedName(recipientId));
	return existsSync(file) ? file : null;
}
