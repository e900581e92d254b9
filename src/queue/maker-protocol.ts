import type {Attachment} from '../mail/message.ts';
import type {Tracking} from '../mail/tracking.ts';
import type {FromWorker, ToWorker} from '../pool/work-protocol.ts';
import type {Made, Unmade} from './attempt.ts';

/** Everything a maker needs for one copy, apart from what it caches: templates by version, DKIM keys by their ids. */
export type MakeJob = {
	readonly recipientId: string;
	readonly messageId: string;
	readonly workspaceId: string;
	readonly workspaceName: string;
	/** The copy's own address, as given. */
	readonly address: string;
	readonly role: 'to' | 'cc';
	readonly acceptedAt: number;
	readonly from: string;
	readonly fromName: string | null;
	readonly to: string;
	readonly cc: readonly string[];
	readonly replyTo: string | null;
	readonly templateId: string;
	readonly versionId: string;
	/** The message's own, the contact's or the workspace's, else `en` and `UTC`. */
	readonly locale: string;
	readonly workspaceLocale: string | null;
	readonly timezone: string;
	/** JSON text. */
	readonly data: string | null;
	readonly topicId: string | null;
	readonly topicCode: string | null;
	readonly tracking: Tracking;
	readonly attachments: readonly Attachment[];
	/** Names the signing keys (resource `dkim:…`). */
	readonly signing: string;
	readonly returnPathDomain: string;
};

export type MakeResult = {readonly ok: true; readonly made: Made} | {readonly ok: false; readonly unmade: Unmade};

export type ToMaker =
	| ToWorker<MakeJob>
	| {readonly kind: 'resource'; readonly name: string; readonly value: unknown; readonly fault?: string};

export type FromMaker = FromWorker<MakeResult> | {readonly kind: 'need'; readonly name: string};
