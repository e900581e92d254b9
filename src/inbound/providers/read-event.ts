import {withoutControls} from '../../kit/text.ts';
import type {Classify} from '../../mail/bounce.ts';
import type {OptionalEvent, ProviderName} from '../../mail/provider.ts';
import {noClues, type Reading, type Report} from '../../mail/report.ts';
import {findReason, replyAlone, replyIn} from '../reports/reply.ts';
import {feedbackActions} from '../reports/sender-mail.ts';
import {type Fields, fieldsOf, type ProviderEvent} from './provider.ts';
import {providers} from './providers.ts';

/** An event as stored until it is read. */
export type StoredEvent = {
	readonly provider: ProviderName;
	/** The workspace whose messages the event may be about, or `null` for any. */
	readonly workspace: string | null;
	/** Kinds of events to accept besides deliveries, bounces and complaints. */
	readonly takes: readonly OptionalEvent[];
	readonly event: Fields;
};

/** Serializes one event per row. Equal events have equal texts. */
export function eventBytes(stored: StoredEvent): Buffer {
	return Buffer.from(JSON.stringify(stored));
}

/**
 * Reads a stored event as a report, so that it has the same effect as one. Throws if the bytes are not a stored event.
 */
export function readEvent(stored: Uint8Array, classify: Classify): Reading {
	const {provider, workspace, takes, event} = JSON.parse(Buffer.from(stored).toString()) as StoredEvent;
	const events = providers[provider].read(fieldsOf(event));
	const [first] = events;
	return {
		kind: 'provider',
		reports: events.map(providerEvent => toReport(withReply(providerEvent), takes, classify)),
		clues: {
			...noClues,
			refs: first?.refs ?? [],
			messageIds: first?.messageIds ?? [],
			providerIds: first?.providerIds ?? [],
		},
		fault: null,
		workspace,
	};
}

/** Extracts the codes of a refusal if the provider leaves them in the reply, and reduces the text to the reply. */
function withReply(event: ProviderEvent): ProviderEvent {
	const {kind, code, status, text} = event;
	if (kind !== 'bounced' && kind !== 'deferred') {
		return event;
	}
	const reply = replyIn(text);
	return {...event, code: code ?? reply.code, status: status ?? reply.enhanced, text: replyAlone(text)};
}

function toReport(event: ProviderEvent, takes: readonly OptionalEvent[], classify: Classify): Report {
	const {recipient, status, code, host, text, feedbackType = null} = event;
	return {
		recipient,
		originalRecipient: null,
		status,
		code,
		host,
		feedbackType,
		type: 'none',
		category: null,
		suppresses: false,
		rule: null,
		matched: null,
		// A truncated URL would point elsewhere.
		reason: event.kind === 'clicked' ? withoutControls(text) : findReason(text),
		...judge(event, takes, classify),
	};
}

/** Judges the mail server's reply by the rule table. If no rule matches, the provider's own verdict applies. */
function judge(
	event: ProviderEvent,
	takes: readonly OptionalEvent[],
	classify: Classify,
): Pick<Report, 'action'> & Partial<Report> {
	const {kind, code, status, host, text} = event;
	switch (kind) {
		case 'delivered':
			return {action: 'delivered'};
		case 'complained':
			// `not-spam` retracts a complaint. For an undefined type, the provider's own event counts.
			return {action: feedbackActions.get(event.feedbackType ?? '') ?? 'complaint'};
		case 'unsubscribed':
			return {action: takes.includes(kind) ? 'unsubscribe' : 'none'};
		case 'opened':
		case 'clicked':
			return {action: takes.includes(kind) ? kind : 'none'};
		case 'deferred':
			return {
				action: 'delayed',
				...classify({phase: null, code, enhanced: status, status, text, host}),
				suppresses: false,
			};
		case 'bounced': {
			const judgement = classify({phase: null, code, enhanced: status, status, text, host});
			return judgement.category === 'undetermined' && event.verdict === 'permanent'
				? {action: 'failed', ...judgement, type: 'permanent', suppresses: true}
				: {action: 'failed', ...judgement};
		}
		case 'dropped': {
			const detail = text === '' ? '' : ` (${findReason(text)})`;
			const reason = `The provider did not send it: the address is on its suppression list${detail}.`;
			return {action: 'failed', type: 'permanent', category: 'policy', suppresses: true, reason};
		}
		default:
			return {action: 'none'};
	}
}
