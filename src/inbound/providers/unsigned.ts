import {hasSecret} from './proofs.ts';
import {
	bare,
	codeOf,
	type Fields,
	fieldsOf,
	type Kinds,
	type Provider,
	parseBatch,
	refIn,
	refName,
	textOf,
	textOrNull,
	texts,
	toProviderEvent,
} from './provider.ts';

// Providers that do not sign their posts. Each post contains the secret itself: in Basic authentication, a token or a
// header.

const postmarkKinds: Kinds = {
	Delivery: ['delivered'],
	Bounce: ['bounced', 'transient'],
	HardBounce: ['bounced', 'permanent'],
	BadEmailAddress: ['bounced', 'permanent'],
	AddressChange: ['bounced', 'permanent'],
	ManuallyDeactivated: ['dropped'],
	Transient: ['deferred'],
	SpamComplaint: ['complained'],
	Unsubscribe: ['unsubscribed'],
	Open: ['opened'],
	Click: ['clicked'],
	// Replies of people and programs, which the listener reads if they arrive as messages.
	AutoResponder: ['other'],
	Subscribe: ['other'],
	ChallengeVerification: ['other'],
	OpenRelayTest: ['other'],
};

/** Postmark's webhooks. */
export const postmark: Provider = {
	secret: 'ours',
	isFromProvider: hasSecret,
	events: parseBatch,
	read: event => [
		toProviderEvent(postmarkKinds, postmarkKind(event), {
			text: texts(event.Details, event.Description, event.OriginalLink, event.SuppressionReason)[0] ?? '',
			recipient: textOrNull(event.Recipient) ?? textOrNull(event.Email),
			// Metadata names come back as sent, but header names are case-insensitive.
			refs: texts(
				...Object.entries(fieldsOf(event.Metadata)).map(([k, v]) => (k.toLowerCase() === refName ? v : '')),
			),
			providerIds: texts(event.MessageID),
		}),
	],
	echo: ref => [`X-PM-Metadata-${refName}`, ref],
};

/** Bounces and complaints that suppress an address are also reported by their own, more detailed events. */
function postmarkKind({RecordType, Type, SuppressSending, SuppressionReason, Origin}: Fields): unknown {
	if (RecordType === 'SubscriptionChange') {
		const isUnsubscribe =
			SuppressSending === true && SuppressionReason === 'ManualSuppression' && Origin === 'Recipient';
		return isUnsubscribe ? 'Unsubscribe' : RecordType;
	}
	return RecordType === 'Bounce' && Object.hasOwn(postmarkKinds, textOf(Type)) ? Type : RecordType;
}

const brevoKinds: Kinds = {
	delivered: ['delivered'],
	hard_bounce: ['bounced', 'permanent'],
	invalid_email: ['bounced', 'permanent'],
	soft_bounce: ['bounced', 'transient'],
	error: ['bounced', 'transient'],
	blocked: ['dropped'],
	deferred: ['deferred'],
	spam: ['complained'],
	complaint: ['complained'],
	unsubscribed: ['unsubscribed'],
	unsubscribe: ['unsubscribed'],
	opened: ['opened'],
	unique_opened: ['opened'],
	click: ['clicked'],
};

/** Brevo's transactional webhooks. */
export const brevo: Provider = {
	secret: 'ours',
	isFromProvider: hasSecret,
	events: parseBatch,
	read: event => [
		toProviderEvent(brevoKinds, event.event, {
			text: texts(event.link, event.reason)[0] ?? '',
			recipient: textOrNull(event.email),
			refs: texts(refIn(event['X-Mailin-custom'])),
			messageIds: texts(bare(event['message-id'])),
			providerIds: texts(bare(event['message-id'])),
		}),
	],
	echo: ref => ['X-Mailin-custom', JSON.stringify({[refName]: ref})],
};

const mailjetKinds: Kinds = {
	sent: ['delivered'],
	hard: ['bounced', 'permanent'],
	bounce: ['bounced', 'transient'],
	blocked: ['bounced', 'transient'],
	preblocked: ['dropped'],
	greylisted: ['deferred'],
	spam: ['complained'],
	unsub: ['unsubscribed'],
	open: ['opened'],
	click: ['clicked'],
};

/** Mailjet's Event API. */
export const mailjet: Provider = {
	secret: 'ours',
	isFromProvider: hasSecret,
	events: parseBatch,
	read: event => [
		toProviderEvent(mailjetKinds, mailjetKind(event), {
			text: texts(event.smtp_reply, event.comment, event.error, event.url, event.source)[0] ?? '',
			recipient: textOrNull(event.email),
			code: codeOf(/^[245]\d\d/.exec(textOf(event.smtp_reply))?.[0]),
			refs: texts(refIn(event.CustomID)),
			providerIds: texts(event.Message_GUID, event.MessageID),
		}),
	],
	echo: ref => ['X-MJ-CustomID', ref],
};

function mailjetKind({event, hard_bounce: isHard, error}: Fields): unknown {
	const isRefused = event === 'blocked' || event === 'bounce';
	// Mailjet retries the message.
	if (isRefused && /gr[ea]y.?list/i.test(textOf(error))) {
		return 'greylisted';
	}
	if (event === 'blocked' && /preblocked|blacklist|spam.?reporter/i.test(textOf(error))) {
		return 'preblocked';
	}
	return event === 'bounce' && isHard === true ? 'hard' : event;
}

const sparkpostKinds: Kinds = {
	delivery: ['delivered'],
	bounce: ['bounced', 'transient'],
	out_of_band: ['bounced', 'transient'],
	policy_rejection: ['bounced', 'transient'],
	generation_rejection: ['bounced', 'transient'],
	generation_failure: ['bounced', 'transient'],
	hard: ['bounced', 'permanent'],
	suppressed: ['dropped'],
	reply: ['other'],
	delay: ['deferred'],
	spam_complaint: ['complained'],
	list_unsubscribe: ['unsubscribed'],
	link_unsubscribe: ['unsubscribed'],
	open: ['opened'],
	initial_open: ['opened'],
	click: ['clicked'],
};
/** Bounce classes: invalid recipient, bounce without RCPT, unsubscribe request. 25 is the provider's own refusal. */
const hardClasses: ReadonlySet<string> = new Set(['10', '30', '90']);
const refusalClass = '25';
/** Replies to delivered messages: an automatic reply, a subscribe request, a challenge. */
const replyClasses: ReadonlySet<string> = new Set(['60', '80', '100']);

/** SparkPost's (now Bird's) event webhooks. */
export const sparkpost: Provider = {
	secret: 'ours',
	isFromProvider: hasSecret,
	// An element is `{msys: {<class>: event}}`. A test post has no event.
	events: body => parseBatch(body)?.flatMap(({msys}) => Object.values(fieldsOf(msys)).map(fieldsOf)) ?? null,
	read: event => [
		toProviderEvent(sparkpostKinds, sparkpostKind(event), {
			text: texts(event.raw_reason, event.reason, event.target_link_url)[0] ?? '',
			recipient: textOrNull(event.raw_rcpt_to) ?? textOrNull(event.rcpt_to),
			code: codeOf(event.error_code),
			host: textOrNull(event.mx_host),
			feedbackType: event.fbtype,
			refs: texts(refIn(event.rcpt_meta)),
			providerIds: texts(event.message_id),
		}),
	],
	echo: ref => ['X-MSYS-API', JSON.stringify({metadata: {[refName]: ref}})],
};

function sparkpostKind({type, bounce_class: bounceClass, raw_reason: reason}: Fields): unknown {
	if (textOf(bounceClass) === refusalClass && /suppress/i.test(textOf(reason))) {
		return 'suppressed';
	}
	if (type !== 'bounce' && type !== 'out_of_band') {
		return type;
	}
	if (replyClasses.has(textOf(bounceClass))) {
		return 'reply';
	}
	return hardClasses.has(textOf(bounceClass)) ? 'hard' : type;
}
