import {present} from '../kit/collections.ts';
import {parseExact} from '../kit/exact-json.ts';
import {snakeCase} from '../kit/text.ts';
import {apiTime} from '../kit/time.ts';
import {type Extras, extraFields} from '../mail/message.ts';
import type {StreamedEvent} from '../store/event-stream.ts';
import type {StoredMessage} from '../store/messages.ts';
import type {ListedAttempt, StoredRecipient} from '../store/recipients.ts';
import type {StoredEvent} from '../store/timeline.ts';
import type {ShownAlert} from './alerts/rules.ts';
import type {CheckedRecord} from './domains/check-records.ts';
import {type DomainRecord, returnPathHost} from './domains/domain-records.ts';
import type {Domain, Sender} from './domains/store.ts';
import type {InboundAddress} from './received/store.ts';
import type {Smarthost} from './smarthosts/store.ts';
import type {Suppression} from './suppressions/store.ts';
import type {ListedVersion, Template, TemplateSettings, TemplateVariant, TemplateVersion} from './templates/store.ts';
import {isBuiltIn, variantSource} from './templates/versions.ts';
import type {Contact, Topic} from './topics/store.ts';
import type {Endpoint, StoredDelivery} from './webhooks/store.ts';

// The JSON form of each resource, for the API and for `--json` on the command line. `time` formats its times.

const timeBy = (time: typeof apiTime) => (stored: string | null) => (stored === null ? null : time(stored));
const timeOrNull = timeBy(apiTime);

/** Leaves the store's times, with milliseconds, as they are. Used on the command line. */
export const storedTime = (stored: string) => stored;

/** Returns a message (docs/reference/interface.md, Message) with the additional fields `mode` and `resent_from`. */
export function messageView(message: StoredMessage, time = apiTime) {
	return {
		id: message.id,
		status: message.status,
		to: message.to,
		from: message.from,
		reply_to: message.replyTo,
		cc: message.cc,
		attachments: message.attachments.map(({filename, contentType}) => ({filename, content_type: contentType})),
		subject: message.subject,
		template_id: message.templateId,
		template_name: message.templateName,
		template_version: message.templateVersion,
		data: message.data,
		metadata: message.metadata,
		tags: message.tags,
		mode: message.mode,
		resent_from: message.resentFrom,
		...extrasView(message.extras, time),
		created_at: time(message.createdAt),
		updated_at: time(message.updatedAt),
	};
}

/** Returns the rare fields, if the message has them. */
function extrasView(extras: Extras, time: typeof apiTime) {
	const {headers, sendAt, expiresAt} = extras;
	return present({
		send_at: sendAt && time(sendAt),
		expires_at: expiresAt && time(expiresAt),
		...Object.fromEntries(extraFields.map(name => [snakeCase(name), extras[name]])),
		headers: headers && Object.fromEntries(headers),
	});
}

/** Returns an address at which a workspace receives mail. */
export const inboundView = ({id, address, created_at: created}: InboundAddress, time: typeof apiTime = apiTime) => ({
	id,
	address,
	created_at: time(created),
});

/** Returns a relay without its secrets. */
export function smarthostView({id, provider, takes, secret, last_event_at: last, created_at: created}: Smarthost) {
	return {
		id,
		provider,
		takes,
		has_secret: secret !== null,
		last_event_at: timeOrNull(last),
		created_at: apiTime(created),
	};
}

/** Returns an alert without its secrets. */
export function alertView(
	{id, way, target, status, sender, kinds, muted_until: muted, sent_at: sent, ...row}: ShownAlert,
	time: typeof apiTime,
) {
	return {
		id,
		way,
		target,
		status,
		from: sender,
		on: kinds,
		error: row.error,
		muted_until: timeBy(time)(muted),
		last_sent_at: timeBy(time)(sent),
		created_at: time(row.created_at),
	};
}

/** Returns an entry of the timeline (docs/reference/interface.md, Message event) with the additional field `detail`. */
export function eventView({id, type, occurredAt, recordedAt, detail}: StoredEvent) {
	return {id, type, occurred_at: apiTime(occurredAt), recorded_at: apiTime(recordedAt), detail};
}

/** Returns an event of the stream: an entry of the timeline with its message. */
export function streamedEventView(event: StreamedEvent) {
	return {...eventView(event), message_id: event.messageId, mode: event.mode};
}

/** Returns a recipient of a message. */
export function recipientView(recipient: Omit<StoredRecipient, 'attempts'>) {
	const {id, address, role, state, state_at: stateAt, next_attempt_at: next, last_reply: lastReply} = recipient;
	return {
		id,
		recipient: address,
		role,
		state,
		state_at: apiTime(stateAt),
		next_attempt_at: timeOrNull(next),
		last_reply: lastReply,
	};
}

/** Returns a session with a mail server, without our own addresses and the reasons, which are for operators. */
export function attemptView(attempt: ListedAttempt) {
	const {recipient, n, at, host, tls, phase, code, enhanced, reply, ms} = attempt;
	return {
		recipient_id: recipient.id,
		recipient: recipient.address,
		role: recipient.role,
		attempt: n,
		at: apiTime(at),
		host,
		tls,
		phase,
		code,
		enhanced,
		reply,
		ms,
	};
}

/** Returns a contact. */
export function contactView(contact: Contact) {
	return {
		id: contact.id,
		email: contact.address,
		locale: contact.locale,
		timezone: contact.timezone,
		created_at: apiTime(contact.createdAt),
		updated_at: apiTime(contact.updatedAt),
		topics: contact.topics,
		suppressed: contact.suppressed,
		...(contact.pausedUntil !== null && {paused_until: apiTime(contact.pausedUntil)}),
	};
}

/** Returns a sender. */
export function senderView(row: Sender, time = apiTime) {
	return {
		id: row.id,
		address: row.address,
		name: row.name,
		verified: row.verified_at !== null,
		active: row.disabled_at === null,
		created_at: time(row.created_at),
	};
}

/** Returns a domain as in lists. */
export function domainView(row: Domain, time = apiTime) {
	const orNull = timeBy(time);
	return {
		id: row.id,
		name: row.name,
		verified: row.verified_at !== null,
		state: row.state,
		state_at: time(row.state_at),
		verified_at: orNull(row.verified_at),
		checked_at: orNull(row.checked_at),
		return_path_domain: returnPathHost(row),
		return_path_used: row.return_path_at !== null,
		link_host: row.link_host,
		link_host_used: row.links_ok_at !== null,
		created_at: time(row.created_at),
	};
}

/** Returns a domain with its records and what DNS returned, if queried. `next` is the time of the next check. */
export function domainRecordsView(
	row: Domain,
	next: string | null,
	records: ReadonlyArray<DomainRecord & Partial<CheckedRecord>>,
	time = apiTime,
) {
	return {...domainView(row, time), next_check_at: timeBy(time)(next), records: recordsView(records, time)};
}

export const recordsView = (records: ReadonlyArray<DomainRecord & Partial<CheckedRecord>>, time = apiTime) =>
	records.map(({isPropagated: _, key, ...record}) => ({
		...record,
		// The value must not be published yet; the note says which setting to change first.
		value: record.ready ? record.value : '',
		key: key && {...key, keep_until: timeBy(time)(key.keep_until)},
	}));

/** Returns a topic (docs/reference/interface.md, Subscription topic) with the settings that are set. */
export function topicView({id, code, name, created_at, public_at, required_at, ...row}: Topic, time = apiTime) {
	const {description, priority} = row;
	const settings = present({public: public_at !== null, required: required_at !== null, description, priority});
	return {id, code, name, created_at: time(created_at), ...settings};
}

/** Returns an entry of the suppression list (docs/reference/interface.md, Suppression entry). */
export function suppressionView({id, address, reason, source, mode, created_at}: Suppression, time = apiTime) {
	return {id, recipient: address, reason, source, mode, created_at: time(created_at)};
}

/** Returns the settings of a template that are set. */
export const settingsView = ({topic, priority, sensitive}: TemplateSettings) => present({topic, priority, sensitive});

export function templateView(row: Template) {
	return {
		id: row.id,
		name: row.name,
		latest_version: row.latest_version,
		...settingsView(row),
		built_in: isBuiltIn(row),
		created_at: apiTime(row.created_at),
		updated_at: apiTime(row.updated_at),
	};
}

/** Returns an item of the list of versions, without the sources. */
export function listedVersionView(
	templateId: string,
	{version, created_at}: ListedVersion,
	variants: ReadonlyArray<Pick<TemplateVariant, 'locale' | 'subject'>>,
) {
	return {
		template_id: templateId,
		version,
		created_at: apiTime(created_at),
		variants: variants.map(({locale, subject}) => ({locale, subject})),
	};
}

export function versionView(
	templateId: string,
	{version, created_at, sample, layout}: TemplateVersion,
	variants: readonly TemplateVariant[],
) {
	return {
		template_id: templateId,
		version,
		created_at: apiTime(created_at),
		variants: variants.map(variantSource).map(({text = null, ...variant}) => ({...variant, text})),
		sample: sample === null ? null : parseExact(sample),
		layout,
	};
}

/** Returns a webhook endpoint. `now` is in the store's time format. */
export function endpointView(endpoint: Endpoint, secret: string | null, now: string) {
	const {id, mode, url, events, disabledAt, failingSince, createdAt, previousUntil} = endpoint;
	return {
		id,
		url,
		events,
		mode,
		format: endpoint.format ?? 'default',
		retry: endpoint.retry ?? 'default',
		active: disabledAt === null,
		disabled_reason: endpoint.disabledReason,
		signing_secret: secret,
		previous_secret_expires_at: timeOrNull(previousUntil !== null && previousUntil > now ? previousUntil : null),
		failing_since: timeOrNull(failingSince),
		created_at: apiTime(createdAt),
	};
}

/** Returns a delivery (docs/reference/interface.md, Webhook delivery) with the result of the last attempt. */
export function deliveryView(delivery: StoredDelivery) {
	return {
		id: delivery.id,
		event_type: delivery.eventType,
		status: delivery.state,
		attempts: delivery.attempts,
		payload: JSON.parse(Buffer.from(delivery.body).toString()) as object,
		last_attempt_at: timeOrNull(delivery.lastAttemptAt),
		last_status: delivery.lastStatus,
		last_error: delivery.lastError,
		next_attempt_at: timeOrNull(delivery.nextAttemptAt),
		message_id: delivery.messageId,
		created_at: apiTime(delivery.createdAt),
	};
}
