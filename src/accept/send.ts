import type {Address} from '../mail/address.ts';
import type {ApiErrorCode} from '../mail/api-error.ts';
import type {Attachment, Mode} from '../mail/message.ts';
import {destinationOf} from '../mail/simulator.ts';
import type {GroupWrite, Writer} from '../store/writer.ts';
import type {Catalog} from './catalog.ts';

/** A send whose shape is right: what was text is read, what was left out is null. JSON is text already. */
export type Send = {
	readonly workspaceId: string;
	readonly mode: Mode;
	readonly from: Address;
	readonly to: Address;
	/** Without duplicates and without `to`. */
	readonly cc: readonly Address[];
	readonly replyTo: Address | null;
	readonly templateId: string;
	readonly data: string | null;
	readonly metadata: string | null;
	readonly tags: string | null;
	readonly topicCode: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	readonly tracking: string | null;
	readonly attachments: readonly Attachment[];
};

/** A send that passed every check that needs no transaction. */
export type Draft = {
	readonly send: Send;
	/** The newest version of the template, which this message keeps whatever is saved later. */
	readonly versionId: string;
	/** Null: none was named, or there is none with the code. */
	readonly topicId: string | null;
};

export type Refused = {readonly ok: false; readonly code: ApiErrorCode};
export type Accepted = {readonly ok: true; readonly id: string} | Refused;
export type Accept = (send: Send) => Promise<Accepted>;

export type AcceptOptions = {
	readonly catalog: Catalog;
	readonly writer: Writer;
	/** `createAcceptWrite`. */
	readonly acceptWrite: GroupWrite<Draft, Accepted>;
	/** Called with the domains of the copies after their commit: they are due now. */
	readonly onAccepted: (destinations: Iterable<string>) => void;
};

/** Takes a message in: the 202 may be sent when this resolves with `ok`, for the message is then on stable storage. */
export function createAccept({catalog, writer, acceptWrite, onAccepted}: AcceptOptions): Accept {
	return async send => {
		const drafted = await draft(catalog, send);
		if (!drafted.ok) {
			return drafted;
		}
		const accepted = await writer.submit(acceptWrite, drafted.draft);
		if (accepted.ok) {
			onAccepted(new Set([send.to, ...send.cc].map(({domain}) => destinationOf(send.mode, domain))));
		}
		return accepted;
	};
}

type Drafted = {readonly ok: true; readonly draft: Draft} | Refused;

/** The checks in the order in which their codes win; those that must see the newest rows follow in the transaction. */
async function draft(catalog: Catalog, send: Send): Promise<Drafted> {
	const {workspaceId} = send;
	const workspace = await catalog.workspace(workspaceId);
	if (!workspace || workspace.paused_at !== null) {
		return refused('sending_paused');
	}

	const template = await catalog.template(workspaceId, send.templateId);
	if (!template) {
		return refused('template_not_found');
	}
	if (template.version_id === null) {
		return refused('template_has_no_version');
	}

	const sender = await catalog.sender(workspaceId, send.from.key);
	if (!sender || sender.verified_at === null || sender.disabled_at !== null) {
		return refused('sender_not_available');
	}

	// Whether the topic exists is judged after the suppression list.
	const topic = send.topicCode === null ? null : await catalog.topic(workspaceId, send.topicCode);
	return {ok: true, draft: {send, versionId: template.version_id, topicId: topic?.id ?? null}};
}

export function refused(code: ApiErrorCode): Refused {
	return {ok: false, code};
}
