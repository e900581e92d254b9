// Made by `npm run docs` from the OpenAPI document. Do not edit.
import {type CallOptions, type Items, Requests, type SendOptions, type Streamed, type StreamOptions} from './requests.ts';

export type Message = {
	id: string;
	status: 'accepted' | 'queued' | 'sent' | 'delivered' | 'bounced' | 'complained' | 'suppressed' | 'errored';
	to: string;
	from: string;
	reply_to: string | null;
	cc: string[];
	attachments: Array<{
		filename: string;
		content_type: string;
	}>;
	/** Null until the message was rendered. */
	subject: string | null;
	template_id: string;
	template_name: string;
	template_version: number;
	data: Record<string, unknown>;
	metadata: Record<string, string>;
	tags: string[];
	mode: 'live' | 'test';
	/** The message that this one repeats. */
	resent_from: string | null;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	updated_at: string;
};

export type Suppression = {
	id: string;
	/** As it was spelled when it was added. */
	recipient: string;
	reason: 'hard_bounce' | 'complaint' | 'manual' | 'unsubscribe';
	/** `api`, `one-click`, `cli`, `dashboard`, `import`, or the id of the message whose bounce or complaint made the entry. */
	source: string;
	/** `test`: a test key made it, and it stops mail of test keys alone. */
	mode: 'live' | 'test';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type UnsubscribeGroup = {
	id: string;
	/** What sends name as `unsubscribeGroup`. */
	code: string;
	name: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type Contact = {
	id: string;
	/** The address as the first send spelled it. */
	email: string;
	/** For sends that name no locale. */
	locale: string | null;
	/** For sends that name no timezone. */
	timezone: string | null;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	updated_at: string;
	/** Codes of the topics that the address opted out of. */
	topics: string[];
	/** Whether the address is on the suppression list. */
	suppressed: boolean;
};

export type Template = {
	id: string;
	name: string;
	/** The version that sends use; null: none was saved. */
	latest_version: number | null;
	/** The template `tpl_submission`, which mail submitted by SMTP has; nobody made it. */
	built_in: boolean;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	updated_at: string;
};

export type Domain = {
	id: string;
	/** A-labels. */
	name: string;
	/** DNS shows that whoever added the domain controls it. Senders need it. */
	verified: boolean;
	/** `degraded`: verified, but DNS lacks the records of late. */
	state: 'pending' | 'verified' | 'degraded' | 'failed';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	state_at: string;
	/** Since when it is verified. */
	verified_at: string | null;
	/** When DNS was last asked. */
	checked_at: string | null;
	/** The host of its own return path. */
	return_path_domain: string;
	/** Bounces go there: DNS shows its MX and SPF. */
	return_path_used: boolean;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type Sender = {
	id: string;
	address: string;
	name: string | null;
	/** Its domain is verified, or an operator said so. Needed for sends. */
	verified: boolean;
	/** False: it was switched off, and sends from it are refused. */
	active: boolean;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type Webhook = {
	id: string;
	url: string;
	events: Array<'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked'>;
	/** `test`: a test key made it, and it gets events of test mail alone; `live`: it gets all. */
	mode: 'live' | 'test';
	/** False: it was switched off, and gets no events. */
	active: boolean;
	/** Keys the signature of each request. During the overlap of a rotation it is the new one, which keys `X-Webhook-Signature-Next`. Null: what is stored is damaged, so nothing is posted until you rotate it. */
	signing_secret: string | null;
	/** Until then the secret before it keys `X-Webhook-Signature`; null: it is the only one. */
	previous_secret_expires_at: string | null;
	/** Since when every attempt has failed; null: the last one was acknowledged. */
	failing_since: string | null;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type MessageSendBody = {
	/** An active, verified sender of the workspace; a bare address. */
	from: string;
	/** The primary recipient; a bare address. */
	to: string;
	/** The template, `tpl_…`; its newest version is sent. */
	templateId: string;
	/** Variables of the template, at most 256 KiB as JSON, 16 levels. */
	data?: Record<string, unknown> | null | undefined;
	/** Where answers go. */
	replyTo?: string | null | undefined;
	/** At most 25 addresses. Duplicates, and `to`, are dropped; a suppressed one is passed over. */
	cc?: readonly string[] | null | undefined;
	/** At most 50 texts of at most 500 characters, names of 1 to 40; echoed on reads and in webhooks. */
	metadata?: Record<string, string> | null | undefined;
	/** A topic's code: recipients can opt out of it alone. */
	unsubscribeGroup?: string | null | undefined;
	/** BCP-47 tag: chooses the variant and formats. Remembered for the recipient. */
	locale?: string | null | undefined;
	/** IANA zone in which dates are shown. Remembered for the recipient. */
	timezone?: string | null | undefined;
	/** At most 3 files. */
	attachments?: ReadonlyArray<{
		/** At most 255 characters, no path separators. */
		filename: string;
		/** `type/subtype`; text may have a `charset`, text/calendar a `method`. UTF-8 text without one gets `charset=utf-8`. */
		contentType: string;
		/** The file as base64, at most 1,048,576 bytes when decoded. Never returned on reads. */
		content: string;
	}> | null | undefined;
	/** At most 10 texts of 1 to 64 characters, echoed on reads. */
	tags?: readonly string[] | null | undefined;
	/** Switches the workspace's tracking off for this send; it cannot switch it on. */
	tracking?: {
		/** False: no open pixel in this mail. */
		opens?: boolean | null | undefined;
		/** False: links of this mail stay as they are. */
		clicks?: boolean | null | undefined;
	} | null | undefined;
};

export type MessageSendAnswer = {
	id: string;
	status: 'accepted';
};

export type MessageListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
	/** Messages in this state. */
	status?: 'accepted' | 'queued' | 'sent' | 'delivered' | 'bounced' | 'complained' | 'suppressed' | 'errored' | null | undefined;
	/** Messages to this address, however it is spelled. */
	recipient?: string | null | undefined;
	/** Messages from this address. */
	from?: string | null | undefined;
	/** Messages of this template, whatever its version. */
	templateId?: string | null | undefined;
	/** Messages whose rendered subject has all of these words, at most 10: whole words, in any order, upper or lower case. */
	subject?: string | null | undefined;
	/** Messages with each of these words in their rendered subject, or as a value of their metadata, whatever its key; a value may have spaces. Upper or lower case. */
	q?: string | null | undefined;
	/** `metadata[order_id]=1042`: messages with this value of their metadata; several must all match. */
	metadata?: Record<string, string> | null | undefined;
	/** Messages with this tag. */
	tag?: string | null | undefined;
	/** The messages whose mail has this Message-ID, with angle brackets or without. A mail that was submitted by SMTP has its own. */
	messageId?: string | null | undefined;
	/** Only messages of live keys, or of test keys; a test key lists its own kind alone. */
	mode?: 'live' | 'test' | null | undefined;
	/** Accepted then or later; RFC 3339 date or date-time, UTC by default. */
	createdAfter?: string | null | undefined;
	/** Accepted before then; RFC 3339 date or date-time, UTC by default. */
	createdBefore?: string | null | undefined;
};

export type MessageEventsQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type MessageEventsItem = {
	id: string;
	type: 'accepted' | 'queued' | 'sent' | 'delivered' | 'opened' | 'clicked' | 'bounced' | 'complained' | 'suppressed' | 'unsubscribed' | 'errored';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	occurred_at: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	recorded_at: string;
	/** What is known besides: recipient, role, SMTP reply, reason, URL … */
	detail: Record<string, unknown>;
};

export type MessageBatchBody = {
	/** From 1 to 100 sends, each with the fields of a single one. */
	messages: ReadonlyArray<{
		/** An active, verified sender of the workspace; a bare address. */
		from: string;
		/** The primary recipient; a bare address. */
		to: string;
		/** The template, `tpl_…`; its newest version is sent. */
		templateId: string;
		/** Variables of the template, at most 256 KiB as JSON, 16 levels. */
		data?: Record<string, unknown> | null | undefined;
		/** Where answers go. */
		replyTo?: string | null | undefined;
		/** At most 25 addresses. Duplicates, and `to`, are dropped; a suppressed one is passed over. */
		cc?: readonly string[] | null | undefined;
		/** At most 50 texts of at most 500 characters, names of 1 to 40; echoed on reads and in webhooks. */
		metadata?: Record<string, string> | null | undefined;
		/** A topic's code: recipients can opt out of it alone. */
		unsubscribeGroup?: string | null | undefined;
		/** BCP-47 tag: chooses the variant and formats. Remembered for the recipient. */
		locale?: string | null | undefined;
		/** IANA zone in which dates are shown. Remembered for the recipient. */
		timezone?: string | null | undefined;
		/** At most 3 files. */
		attachments?: ReadonlyArray<{
			/** At most 255 characters, no path separators. */
			filename: string;
			/** `type/subtype`; text may have a `charset`, text/calendar a `method`. UTF-8 text without one gets `charset=utf-8`. */
			contentType: string;
			/** The file as base64, at most 1,048,576 bytes when decoded. Never returned on reads. */
			content: string;
		}> | null | undefined;
		/** At most 10 texts of 1 to 64 characters, echoed on reads. */
		tags?: readonly string[] | null | undefined;
		/** Switches the workspace's tracking off for this send; it cannot switch it on. */
		tracking?: {
			/** False: no open pixel in this mail. */
			opens?: boolean | null | undefined;
			/** False: links of this mail stay as they are. */
			clicks?: boolean | null | undefined;
		} | null | undefined;
	}>;
};

export type MessageBatchAnswer = {
	data: Array<{
		/** The position of the item, from 0. */
		index: number;
		status: 'accepted';
		/** Of the message, `msg_…`. */
		id: string;
	} | {
		/** The position of the item, from 0. */
		index: number;
		status: 'error';
		error: {
			/** As of a single send. */
			code: string;
			/** For people; names the first field at fault. */
			message: string;
		};
	}>;
};

export type MessageRecipientsQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type MessageRecipientsItem = {
	id: string;
	/** The address, as the send spelled it. */
	recipient: string;
	role: 'to' | 'cc';
	/** That of `to` is the status of the message. */
	state: 'accepted' | 'queued' | 'sent' | 'delivered' | 'bounced' | 'complained' | 'suppressed' | 'errored';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	state_at: string;
	/** When it is tried next; null: it is not in the queue any more. */
	next_attempt_at: string | null;
	/** What was said of it last; null: nothing yet. */
	last_reply: string | null;
};

export type MessageAttemptsQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type MessageAttemptsItem = {
	recipient_id: string;
	recipient: string;
	role: 'to' | 'cc';
	/** Which try it was part of, from 1. */
	attempt: number;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	at: string;
	/** With whom; null: no host was found. */
	host: string | null;
	/** Protocol, cipher, and whether the certificate was verified; null: no TLS. */
	tls: string | null;
	/** How far it came. */
	phase: 'route' | 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'dot';
	/** Of the SMTP reply; null: none came. */
	code: number | null;
	/** The enhanced status code (RFC 3463). */
	enhanced: string | null;
	/** The SMTP reply, or why there was none. */
	reply: string;
	/** How long it took, milliseconds. */
	ms: number;
};

export type MessageContentQuery = {
	/** Whose copy; absent: that of `to`. */
	recipient?: string | null | undefined;
};

export type MessageContentAnswer = {
	subject: string;
	html: string;
	text: string;
};

export type MessageRawQuery = {
	/** Whose copy; absent: that of `to`. */
	recipient?: string | null | undefined;
};

export type MessageResendBody = Record<string, unknown>;

export type UsageGetQuery = {
	/** Also answers figures by day, for this many days up to today: 1 to 90. */
	days?: string | null | undefined;
};

export type UsageGetAnswer = {
	/** The month, `2026-11`. */
	period: string;
	/** UTC, `2026-11-01T00:00:00+00:00` */
	period_start: string;
	/** The start of the next month. */
	period_end: string;
	/** Messages accepted, which the quota counts. */
	accepted: number;
	/** Messages of test keys and to `simulator.test`, which it does not. */
	test: number;
	/** Null: unlimited. */
	quota: number | null;
	/** Null: unlimited. */
	remaining: number | null;
	/** When the next month starts, Unix seconds. */
	reset: number;
	/** Only with the parameter `days`. Outcomes count on the day on which they were recorded. */
	days?: Array<{
		/** In UTC, `2026-11-05`. */
		day: string;
		accepted: number;
		delivered: number;
		bounced: number;
		complained: number;
	}>;
};

export type StatGetQuery = {
	/** Messages that were accepted on so many days up to today (UTC): 1 to 90, by default 30. */
	days?: string | null | undefined;
	/** A row for each workspace, domain of the sender, template, domain of the recipient (`destination`), or category of bounce (`category`: only messages that bounced). */
	by?: 'workspace' | 'domain' | 'template' | 'destination' | 'category' | null | undefined;
};

export type StatGetAnswer = {
	/** The start of the first day, UTC. */
	from: string;
	/** Now: the days are up to today. */
	to: string;
	/** As asked for; null: one row of all. */
	by: 'workspace' | 'domain' | 'template' | 'destination' | 'category' | null;
	/** The group with the most messages first, at most 1000. */
	rows: Array<{
		/** The name of the workspace or template, the domain, or the category; without `by` it is `total`. */
		key: string;
		/** Of the workspace or template. */
		id?: string;
		/** All messages, also those that wait. */
		accepted: number;
		/** That a host of the recipient took, also if a complaint followed. */
		delivered: number;
		/** Whose status is `bounced`. */
		bounced: number;
		/** Whose status is `complained`. */
		complained: number;
		/** With an `opened` event, once each. */
		opened: number;
		/** With a `clicked` event, once each. */
		clicked: number;
		/** Whose status is `errored`. */
		errored: number;
	}>;
	/** Whether there are more groups. */
	truncated: boolean;
};

export type EventStreamQuery = {
	/** Only events of these types, with commas between them: `delivered,bounced`. */
	types?: string | null | undefined;
};

export type EventStreamItem = {
	id: string;
	type: 'accepted' | 'queued' | 'sent' | 'delivered' | 'opened' | 'clicked' | 'bounced' | 'complained' | 'suppressed' | 'unsubscribed' | 'errored';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	occurred_at: string;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	recorded_at: string;
	/** What is known besides: recipient, role, SMTP reply, reason, URL … */
	detail: Record<string, unknown>;
	message_id: string;
	mode: 'live' | 'test';
};

export type SuppressionCreateBody = {
	/** A bare address. Upper and lower case, and the spelling of an international domain, do not matter. */
	recipient: string;
};

export type SuppressionListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
	/** Only this address: one entry or none. */
	recipient?: string | null | undefined;
	/** Only entries made for this reason. */
	reason?: 'hard_bounce' | 'complaint' | 'manual' | 'unsubscribe' | null | undefined;
};

export type SuppressionExportQuery = {
	/** Only entries made for this reason. */
	reason?: 'hard_bounce' | 'complaint' | 'manual' | 'unsubscribe' | null | undefined;
};

export type SuppressionImportQuery = {
	/** The reason of every line, whatever it says. */
	reason?: 'hard_bounce' | 'complaint' | 'manual' | 'unsubscribe' | null | undefined;
};

export type SuppressionImportAnswer = {
	/** Lines, without the header. */
	read: number;
	added: number;
	/** They were on the list already, and stay as they were. */
	listed: number;
	/** They were not taken. */
	bad: number;
	/** Which column was taken for `recipient`, `reason`, `created_at`; null: the file is empty. */
	columns: Record<string, unknown> | null;
	/** What is wrong with the first 100 of the bad lines, counted from 1. */
	faults: Array<{
		line: number;
		fault: string;
	}>;
};

export type UnsubscribeGroupCreateBody = {
	/** 1 to 64 letters, digits, hyphens and underscores; unique within the workspace. */
	code: string;
	/** 1 to 200 characters; recipients see it on the unsubscribe page. */
	name: string;
};

export type UnsubscribeGroupListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type ContactListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
	/** The contact of this address, however it is spelled. */
	email?: string | null | undefined;
};

export type ContactUpdateBody = {
	/** BCP-47 tag, such as `de-AT`. Null or an empty text: none; left out: as it is. */
	locale?: string | '' | null | null | undefined;
	/** IANA time zone, such as `Europe/Vienna`. Null or an empty text: none; left out: as it is. */
	timezone?: string | '' | null | null | undefined;
};

export type TemplateCreateBody = {
	/** For people, unique in the workspace: 1 to 200 characters on one line. */
	name: string;
	/** The id to send with, unique in the workspace: `tpl_` and 1 to 64 letters, digits, hyphens and underscores. Left out: a new one. */
	id?: string | null | undefined;
};

export type TemplateListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type TemplateCreateVersionBody = {
	/** One for each language, at most 50, each with either `mjml` or `html`. */
	variants: ReadonlyArray<{
		/** BCP-47 tag; left out, null or empty: the default variant. */
		locale?: string | null | undefined;
		/** Liquid. */
		subject: string;
		/** The body as MJML with Liquid; or `html`. */
		mjml?: string | null | undefined;
		/** The body as html with Liquid; or `mjml`. */
		html?: string | null | undefined;
		/** The text part, Liquid; left out: made from the html. */
		text?: string | null | undefined;
	}>;
};

export type TemplateCreateVersionAnswer = {
	template_id: string;
	/** Counted from 1. */
	version: number;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	variants: Array<{
		locale: string | null;
		subject: string;
		mjml?: string;
		html?: string;
		/** Null: it is made from the html. */
		text: string | null;
	}>;
	/** Variables for previews, from the sample.json of `mailctl template push`. */
	sample: Record<string, unknown> | null;
};

export type TemplateVersionsQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type TemplateVersionsItem = {
	template_id: string;
	/** Counted from 1. */
	version: number;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	variants: Array<{
		locale: string | null;
		subject: string;
	}>;
};

export type TemplatePreviewBody = {
	/** Variables; left out: the version's sample, if it has one. */
	data?: Record<string, unknown> | null | undefined;
	/** Of the recipient, a BCP-47 tag. */
	locale?: string | null | undefined;
	/** Of the recipient, an IANA name. */
	timezone?: string | null | undefined;
	/** Its number; left out: the newest. */
	version?: number | null | undefined;
};

export type DomainListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type DomainCreateBody = {
	/** The domain of `From` addresses, such as `shop.example`. */
	name: string;
	/** Where its bounces go, a host below the domain; absent: `bounce.` and the domain. */
	return_path_domain?: string | null | undefined;
};

export type DomainCreateAnswer = {
	id: string;
	/** A-labels. */
	name: string;
	/** DNS shows that whoever added the domain controls it. Senders need it. */
	verified: boolean;
	/** `degraded`: verified, but DNS lacks the records of late. */
	state: 'pending' | 'verified' | 'degraded' | 'failed';
	/** UTC, `2026-06-09T10:15:30+00:00` */
	state_at: string;
	/** Since when it is verified. */
	verified_at: string | null;
	/** When DNS was last asked. */
	checked_at: string | null;
	/** The host of its own return path. */
	return_path_domain: string;
	/** Bounces go there: DNS shows its MX and SPF. */
	return_path_used: boolean;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
	/** When DNS is asked again; null: it is not. */
	next_check_at: string | null;
	records: Array<{
		type: 'TXT' | 'MX' | 'CNAME';
		name: string;
		/** Whole, as most DNS panels take it; empty where it is not `ready`. */
		value: string;
		purpose: 'ownership' | 'dkim' | 'return_path' | 'spf' | 'dmarc';
		/** Without it mail fails checks. Ownership or one DKIM record verifies the domain. */
		required: boolean;
		/** What DNS answered. */
		found: string[];
		/** The key that a DKIM record publishes. */
		key: {
			id: string;
			algorithm: 'rsa-sha256' | 'ed25519-sha256';
			/** `pending`: it signs once DNS shows it; `retired`: its record stays until `keep_until`. */
			state: 'active' | 'pending' | 'retired';
			/** Until then the record of a retired key has to stay. */
			keep_until: string | null;
		} | null;
		/** Of an MX: names whose mail goes the same way. */
		alike: string[];
		/** What to know before it is published. */
		note: string | null;
		/** False: set MAILCTL_HOSTNAME first, the value would have a name that only this machine knows; `note` says so. */
		ready: boolean;
		/** DNS answers what is to be published; absent: it was not asked. */
		ok?: boolean;
		state?: 'ok' | 'missing' | 'different' | 'unknown';
		/** What is wrong, or right but remarkable. */
		problem?: string | null;
	}>;
};

export type DomainVerifyBody = Record<string, unknown>;

export type DomainRotateKeyBody = Record<string, unknown>;

export type SenderListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type SenderCreateBody = {
	/** A bare address. Its domain is made, with signing keys, if the workspace does not have it. */
	address: string;
	/** The display name of `From`, 1 to 200 characters. */
	name?: string | null | undefined;
};

export type SenderUpdateBody = {
	/** The display name of `From`, 1 to 200 characters; null: none. */
	name?: string | null | null | undefined;
	/** False: sends from the address are refused. */
	active?: boolean | null | undefined;
};

export type WebhookCreateBody = {
	/** A public https URL. The host must not be local; the port must be 80, 443 or above 1023, and not the usual one of a database. */
	url: string;
	/** The events to be posted there. */
	events: ReadonlyArray<'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked'>;
};

export type WebhookListQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type WebhookUpdateBody = {
	/** A public https URL. The host must not be local; the port must be 80, 443 or above 1023, and not the usual one of a database. */
	url?: string | null | undefined;
	/** The events to be posted there. */
	events?: ReadonlyArray<'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked'> | null | undefined;
	/** False: it gets no events. */
	active?: boolean | null | undefined;
};

export type WebhookTestBody = Record<string, unknown>;

export type WebhookTestAnswer = {
	acknowledged: boolean;
	/** What the endpoint answered; null: nothing. */
	status: number | null;
	/** Why it failed, for people; null: it was acknowledged. */
	error: string | null;
	/** How long it took, milliseconds. */
	ms: number;
};

export type WebhookRotateSecretBody = {
	/** How long the old secret goes on to sign; 24 hours by default, at most 30 days. */
	overlap?: string | number | null | null | undefined;
};

export type WebhookDeliveriesQuery = {
	/** Most items of a page, 1 to 100. */
	limit?: string | null | undefined;
};

export type WebhookDeliveriesItem = {
	id: string;
	event_type: 'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked';
	/** `failed` is tried again, `exhausted` is not: replay it. */
	status: 'pending' | 'delivered' | 'failed' | 'exhausted';
	/** Attempts made since the event, or since the last replay. */
	attempts: number;
	/** The exact body that is posted. */
	payload: Record<string, unknown>;
	/** When the last attempt began; null: none was made. */
	last_attempt_at: string | null;
	/** What the endpoint answered to it. */
	last_status: number | null;
	/** Why it failed, for people; null: it was acknowledged. */
	last_error: string | null;
	/** When the next attempt is due; null: none is. */
	next_attempt_at: string | null;
	message_id: string | null;
	/** UTC, `2026-06-09T10:15:30+00:00` */
	created_at: string;
};

export type WebhookReplayDeliveryBody = Record<string, unknown>;

/** What endpoints get: the body of a webhook. */
export type WebhookEvent = {
	type: 'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked';
	message_id: string;
	/** The address that the event is about. */
	recipient: string;
	/** UTC. */
	occurred_at: string;
	/** As given at the send; empty if none. */
	metadata: Record<string, string>;
};

/** A method for each route of the API, by noun. */
export class Nouns extends Requests {
	readonly messages = {
		/**
		 * Send a message.
		 *
		 * The checks, in the order in which their codes win: rate limit, shape, `Idempotency-Key`, pause, template, sender, suppression list, topic, opt-out, quota. Nothing is stored of a send that is refused. When the quota refuses, the `RateLimit` headers are about the month.
		 *
		 * Needs the scope `messages:send`.
		 */
		send: (body: MessageSendBody, options: SendOptions = {}): Promise<MessageSendAnswer> =>
			this.call('POST', `/v1/messages`, 'json', {body, once: true}, options),
		/**
		 * List messages.
		 *
		 * Newest first; all filters given must match. A page ends early where its messages have more than 1 MiB of `data` and `metadata`. With several filters it may hold fewer messages than `limit`, or none, and still have a `next_cursor`.
		 *
		 * Needs the scope `messages:read`.
		 */
		list: (query: MessageListQuery = {}, options: CallOptions = {}): Items<Message> =>
			this.pages(`/v1/messages`, {query}, options),
		/**
		 * Read a message.
		 *
		 * Needs the scope `messages:read`.
		 */
		get: (id: string, options: CallOptions = {}): Promise<Message> =>
			this.call('GET', `/v1/messages/${encodeURIComponent(id)}`, 'json', {}, options),
		/**
		 * Read a message's timeline.
		 *
		 * Needs the scope `messages:read`.
		 */
		events: (id: string, query: MessageEventsQuery = {}, options: CallOptions = {}): Items<MessageEventsItem> =>
			this.pages(`/v1/messages/${encodeURIComponent(id)}/events`, {query}, options),
		/**
		 * Send a batch of messages.
		 *
		 * Each item is a send, judged as if it came alone: one that is refused refuses no other. Results stand in the order of the items. Each item draws one on a bucket of its own kind, with the same limit as that of single sends; the `RateLimit` headers describe that bucket. An `Idempotency-Key` is not honoured.
		 *
		 * Needs the scope `messages:send`.
		 */
		batch: (body: MessageBatchBody, options: CallOptions = {}): Promise<MessageBatchAnswer> =>
			this.call('POST', `/v1/messages/batch`, 'json', {body}, options),
		/**
		 * List a message's recipients.
		 *
		 * One for each address, `to` first. Each has a copy of its own with a state of its own.
		 *
		 * Needs the scope `messages:read`.
		 */
		recipients: (id: string, query: MessageRecipientsQuery = {}, options: CallOptions = {}): Items<MessageRecipientsItem> =>
			this.pages(`/v1/messages/${encodeURIComponent(id)}/recipients`, {query}, options),
		/**
		 * List a message's attempts.
		 *
		 * Every conversation with a host, recipient by recipient, each in order. A try may take several, one for each host.
		 *
		 * Needs the scope `messages:read`.
		 */
		attempts: (id: string, query: MessageAttemptsQuery = {}, options: CallOptions = {}): Items<MessageAttemptsItem> =>
			this.pages(`/v1/messages/${encodeURIComponent(id)}/attempts`, {query}, options),
		/**
		 * Read a message's content.
		 *
		 * Subject, html and text as the template renders them for this recipient; links are not rewritten for tracking.
		 *
		 * Needs the scope `messages:read`.
		 */
		content: (id: string, query: MessageContentQuery = {}, options: CallOptions = {}): Promise<MessageContentAnswer> =>
			this.call('GET', `/v1/messages/${encodeURIComponent(id)}/content`, 'json', {query}, options),
		/**
		 * Read a message's mail.
		 *
		 * The whole mail with its headers. In capture mode it is the captured one; otherwise it is made again, and its signatures and the tokens of its links are other ones than those that were sent. Mail by a test key has no signature.
		 *
		 * Needs the scope `messages:read`.
		 */
		raw: (id: string, query: MessageRawQuery = {}, options: CallOptions = {}): Promise<Uint8Array> =>
			this.call('GET', `/v1/messages/${encodeURIComponent(id)}/raw`, 'bytes', {query}, options),
		/**
		 * Resend a message.
		 *
		 * A new message that says the same, in the mode of the first (`live` or `test`), with the newest version of its template. It passes every check of a send, draws on the same rate limit and quota, and takes an `Idempotency-Key`. It teaches the contact nothing. The body may be left out.
		 *
		 * Needs the scope `messages:send`.
		 */
		resend: (id: string, body: MessageResendBody, options: SendOptions = {}): Promise<MessageSendAnswer> =>
			this.call('POST', `/v1/messages/${encodeURIComponent(id)}/resend`, 'json', {body, once: true}, options),
	};

	readonly usage = {
		/**
		 * Read the usage of the month.
		 *
		 * What the workspace sent in this calendar month (UTC), and what is left of its quota. A message counts once, whatever its `cc`, when it is accepted. Sends by test keys and to `simulator.test` are counted apart, as `test`.
		 *
		 * Needs the scope `usage:read`.
		 */
		get: (query: UsageGetQuery = {}, options: CallOptions = {}): Promise<UsageGetAnswer> =>
			this.call('GET', `/v1/usage`, 'json', {query}, options),
	};

	readonly stats = {
		/**
		 * Count what became of messages.
		 *
		 * Counts the messages of the workspace that were accepted in the last days, by what has become of them so far. Mail by test keys and to `simulator.test` is not counted, nor are copies to `cc` and messages that retention removed. Workspaces take turns: 503 `unavailable` if too many of your requests wait.
		 *
		 * Needs the scope `stats:read`.
		 */
		get: (query: StatGetQuery = {}, options: CallOptions = {}): Promise<StatGetAnswer> =>
			this.call('GET', `/v1/stats`, 'json', {query}, options),
	};

	readonly events = {
		/**
		 * Follow events.
		 *
		 * Every event of the workspace’s messages as a server-sent event, from now on or from behind `Last-Event-ID`; those of a message come in their order. A test key sees those of test mail alone. An event may come twice after a connection was lost, and none is left out. At most 10 streams of one key.
		 *
		 * Needs the scope `events:read`.
		 */
		stream: (options: StreamOptions & EventStreamQuery = {}): AsyncGenerator<Streamed<EventStreamItem>, never> =>
			this.stream(`/v1/events`, options),
	};

	readonly suppressions = {
		/**
		 * Suppress an address.
		 *
		 * Refuses later sends to the address, and stops copies that wait in the queue. An entry that a test key makes stops mail of test keys alone.
		 *
		 * Needs the scope `suppressions:manage`.
		 */
		create: (body: SuppressionCreateBody, options: CallOptions = {}): Promise<Suppression> =>
			this.call('POST', `/v1/suppressions`, 'json', {body}, options),
		/**
		 * List suppressed addresses.
		 *
		 * Needs the scope `suppressions:read`.
		 */
		list: (query: SuppressionListQuery = {}, options: CallOptions = {}): Items<Suppression> =>
			this.pages(`/v1/suppressions`, {query}, options),
		/**
		 * Remove an entry.
		 *
		 * Mail to the address flows again; a later bounce or complaint makes a new entry. A test key removes entries of test keys and of `simulator.test` only.
		 *
		 * Needs the scope `suppressions:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/suppressions/${encodeURIComponent(id)}`, 'nothing', {}, options),
		/**
		 * Export suppressed addresses.
		 *
		 * All entries as CSV, newest first, with a header; an import reads it again. A test key exports entries of test keys, a live key all others.
		 *
		 * Needs the scope `suppressions:read`.
		 */
		export: (query: SuppressionExportQuery = {}, options: CallOptions = {}): Promise<string> =>
			this.call('GET', `/v1/suppressions/export`, 'text', {query}, options),
		/**
		 * Import suppressed addresses.
		 *
		 * A CSV file of at most 16 MiB, as `GET /v1/suppressions/export` or other services write it. Lines that are taken stay, whatever comes after them; repeating an import changes nothing. A test key makes entries that stop mail of test keys alone.
		 *
		 * Needs the scope `suppressions:manage`.
		 */
		import: (body: string, query: SuppressionImportQuery = {}, options: CallOptions = {}): Promise<SuppressionImportAnswer> =>
			this.call('POST', `/v1/suppressions/import`, 'json', {query, body, media: 'text/csv'}, options),
	};

	readonly unsubscribeGroups = {
		/**
		 * Create a topic.
		 *
		 * Opt-outs of an earlier topic with this code hold again.
		 *
		 * Needs the scope `unsubscribe_groups:manage`.
		 */
		create: (body: UnsubscribeGroupCreateBody, options: CallOptions = {}): Promise<UnsubscribeGroup> =>
			this.call('POST', `/v1/unsubscribe-groups`, 'json', {body}, options),
		/**
		 * List topics.
		 *
		 * Pages have 100 topics unless `limit` says otherwise.
		 *
		 * Needs the scope `unsubscribe_groups:read`.
		 */
		list: (query: UnsubscribeGroupListQuery = {}, options: CallOptions = {}): Items<UnsubscribeGroup> =>
			this.pages(`/v1/unsubscribe-groups`, {query}, options),
		/**
		 * Delete a topic.
		 *
		 * Its opt-outs are kept by code. Unsubscribe links of mail that was tagged with it suppress the recipient for all mail from now on.
		 *
		 * Needs the scope `unsubscribe_groups:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/unsubscribe-groups/${encodeURIComponent(id)}`, 'nothing', {}, options),
	};

	readonly contacts = {
		/**
		 * List contacts.
		 *
		 * A contact is made by the first live send to an address.
		 *
		 * Needs the scope `contacts:read`.
		 */
		list: (query: ContactListQuery = {}, options: CallOptions = {}): Items<Contact> =>
			this.pages(`/v1/contacts`, {query}, options),
		/**
		 * Read a contact.
		 *
		 * Needs the scope `contacts:read`.
		 */
		get: (id: string, options: CallOptions = {}): Promise<Contact> =>
			this.call('GET', `/v1/contacts/${encodeURIComponent(id)}`, 'json', {}, options),
		/**
		 * Change a contact.
		 *
		 * A later send that names a locale or a timezone changes it again.
		 *
		 * Needs the scope `contacts:manage`.
		 */
		update: (id: string, body: ContactUpdateBody, options: CallOptions = {}): Promise<Contact> =>
			this.call('PATCH', `/v1/contacts/${encodeURIComponent(id)}`, 'json', {body}, options),
		/**
		 * Erase a person.
		 *
		 * Removes the contact, and from all messages the address (`erased@erased.invalid` stands in its place), variables, metadata, subject, attachments, details of events, captured mails; mail to it that waits ends `suppressed`. Suppressions and opt-outs stay: they keep the person from being mailed.
		 *
		 * Needs the scope `contacts:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/contacts/${encodeURIComponent(id)}`, 'nothing', {}, options),
	};

	readonly templates = {
		/**
		 * Make a template.
		 *
		 * It can be sent once it has a version.
		 *
		 * Needs the scope `templates:manage`.
		 */
		create: (body: TemplateCreateBody, options: CallOptions = {}): Promise<Template> =>
			this.call('POST', `/v1/templates`, 'json', {body}, options),
		/**
		 * List templates.
		 *
		 * Needs the scope `templates:read`.
		 */
		list: (query: TemplateListQuery = {}, options: CallOptions = {}): Items<Template> =>
			this.pages(`/v1/templates`, {query}, options),
		/**
		 * Read a template.
		 *
		 * Needs the scope `templates:read`.
		 */
		get: (id: string, options: CallOptions = {}): Promise<Template> =>
			this.call('GET', `/v1/templates/${encodeURIComponent(id)}`, 'json', {}, options),
		/**
		 * Delete a template.
		 *
		 * Mail accepted with it still goes out. Its name is free again.
		 *
		 * Needs the scope `templates:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/templates/${encodeURIComponent(id)}`, 'nothing', {}, options),
		/**
		 * Save a version of a template.
		 *
		 * The next number, which sends use from now on; also where nothing differs from the newest version. Sources are checked and compiled: what does not parse is a violation that names the field, line and column.
		 *
		 * Needs the scope `templates:manage`.
		 */
		createVersion: (id: string, body: TemplateCreateVersionBody, options: CallOptions = {}): Promise<TemplateCreateVersionAnswer> =>
			this.call('POST', `/v1/templates/${encodeURIComponent(id)}/versions`, 'json', {body}, options),
		/**
		 * List the versions of a template.
		 *
		 * Without their sources: read those version by version.
		 *
		 * Needs the scope `templates:read`.
		 */
		versions: (id: string, query: TemplateVersionsQuery = {}, options: CallOptions = {}): Items<TemplateVersionsItem> =>
			this.pages(`/v1/templates/${encodeURIComponent(id)}/versions`, {query}, options),
		/**
		 * Read a version of a template.
		 *
		 * Needs the scope `templates:read`.
		 */
		version: (id: string, version: string, options: CallOptions = {}): Promise<TemplateCreateVersionAnswer> =>
			this.call('GET', `/v1/templates/${encodeURIComponent(id)}/versions/${encodeURIComponent(version)}`, 'json', {}, options),
		/**
		 * Preview a template.
		 *
		 * Renders it as a send would, for `recipient@example.com`; nothing is sent.
		 *
		 * Needs the scope `templates:read`.
		 */
		preview: (id: string, body: TemplatePreviewBody, options: CallOptions = {}): Promise<MessageContentAnswer> =>
			this.call('POST', `/v1/templates/${encodeURIComponent(id)}/preview`, 'json', {body}, options),
	};

	readonly domains = {
		/**
		 * List domains.
		 *
		 * Needs the scope `domains:read`.
		 */
		list: (query: DomainListQuery = {}, options: CallOptions = {}): Items<Domain> =>
			this.pages(`/v1/domains`, {query}, options),
		/**
		 * Add a domain.
		 *
		 * With keys that sign its mail once DNS shows them. Publish the records of the answer, then verify it.
		 *
		 * Needs the scope `domains:manage`.
		 */
		create: (body: DomainCreateBody, options: CallOptions = {}): Promise<DomainCreateAnswer> =>
			this.call('POST', `/v1/domains`, 'json', {body}, options),
		/**
		 * Read a domain.
		 *
		 * Asks DNS now, and changes nothing. That may take some seconds.
		 *
		 * Needs the scope `domains:read`.
		 */
		get: (id: string, options: CallOptions = {}): Promise<DomainCreateAnswer> =>
			this.call('GET', `/v1/domains/${encodeURIComponent(id)}`, 'json', {}, options),
		/**
		 * Remove a domain.
		 *
		 * With its keys: mail that is on its way may fail DKIM. Remove its senders first.
		 *
		 * Needs the scope `domains:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/domains/${encodeURIComponent(id)}`, 'nothing', {}, options),
		/**
		 * Verify a domain.
		 *
		 * Asks DNS now and keeps what follows: whether the domain is verified, which keys sign, whether its own return path is used. The body may be left out.
		 *
		 * Needs the scope `domains:manage`.
		 */
		verify: (id: string, body: DomainVerifyBody, options: CallOptions = {}): Promise<DomainCreateAnswer> =>
			this.call('POST', `/v1/domains/${encodeURIComponent(id)}/verify`, 'json', {body}, options),
		/**
		 * Rotate the keys of a domain.
		 *
		 * New keys sign once DNS shows their records; the old ones sign until then. The body may be left out.
		 *
		 * Needs the scope `domains:manage`.
		 */
		rotateKey: (id: string, body: DomainRotateKeyBody, options: CallOptions = {}): Promise<DomainCreateAnswer> =>
			this.call('POST', `/v1/domains/${encodeURIComponent(id)}/rotate-key`, 'json', {body}, options),
	};

	readonly senders = {
		/**
		 * List senders.
		 *
		 * Needs the scope `senders:read`.
		 */
		list: (query: SenderListQuery = {}, options: CallOptions = {}): Items<Sender> =>
			this.pages(`/v1/senders`, {query}, options),
		/**
		 * Add a sender.
		 *
		 * It can send once its domain is verified, by the records of `GET /v1/domains/{id}`, or an operator verified the sender.
		 *
		 * Needs the scope `senders:manage`.
		 */
		create: (body: SenderCreateBody, options: CallOptions = {}): Promise<Sender> =>
			this.call('POST', `/v1/senders`, 'json', {body}, options),
		/**
		 * Change a sender.
		 *
		 * Its name, and whether sends may use it. What is left out stays as it is.
		 *
		 * Needs the scope `senders:manage`.
		 */
		update: (id: string, body: SenderUpdateBody, options: CallOptions = {}): Promise<Sender> =>
			this.call('PATCH', `/v1/senders/${encodeURIComponent(id)}`, 'json', {body}, options),
		/**
		 * Remove a sender.
		 *
		 * Its queued mail ends `errored`. The domain stays.
		 *
		 * Needs the scope `senders:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/senders/${encodeURIComponent(id)}`, 'nothing', {}, options),
	};

	readonly webhooks = {
		/**
		 * Register an endpoint.
		 *
		 * The answer and the list show the endpoint’s signing secret. At most 50 in a workspace.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		create: (body: WebhookCreateBody, options: CallOptions = {}): Promise<Webhook> =>
			this.call('POST', `/v1/webhooks`, 'json', {body}, options),
		/**
		 * List endpoints.
		 *
		 * Needs the scope `webhooks:read`.
		 */
		list: (query: WebhookListQuery = {}, options: CallOptions = {}): Items<Webhook> =>
			this.pages(`/v1/webhooks`, {query}, options),
		/**
		 * Change an endpoint.
		 *
		 * What is left out stays as it is. An endpoint that is not active gets no events; what waits for it goes on waiting until it is active again. What waits is posted to a new url. Its secret stays.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		update: (id: string, body: WebhookUpdateBody, options: CallOptions = {}): Promise<Webhook> =>
			this.call('PATCH', `/v1/webhooks/${encodeURIComponent(id)}`, 'json', {body}, options),
		/**
		 * Delete an endpoint.
		 *
		 * Nothing more is posted to it, and its deliveries are gone.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		delete: (id: string, options: CallOptions = {}): Promise<void> =>
			this.call('DELETE', `/v1/webhooks/${encodeURIComponent(id)}`, 'nothing', {}, options),
		/**
		 * Test an endpoint.
		 *
		 * Posts a signed example event now and waits for what comes back; nothing is stored. The body may be left out.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		test: (id: string, body: WebhookTestBody, options: CallOptions = {}): Promise<WebhookTestAnswer> =>
			this.call('POST', `/v1/webhooks/${encodeURIComponent(id)}/test`, 'json', {body}, options),
		/**
		 * Rotate the secret of an endpoint.
		 *
		 * Until the `overlap` (24 hours by default, at most 30 days) ends, requests carry two signatures: `X-Webhook-Signature` by the old secret, `X-Webhook-Signature-Next` by the new one. With an overlap of 0 the old secret ends at once. Rotating again during an overlap ends the oldest secret. The body may be left out.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		rotateSecret: (id: string, body: WebhookRotateSecretBody, options: CallOptions = {}): Promise<Webhook> =>
			this.call('POST', `/v1/webhooks/${encodeURIComponent(id)}/rotate-secret`, 'json', {body}, options),
		/**
		 * List deliveries of an endpoint.
		 *
		 * A page ends early where its payloads have more than 1 MiB; it then holds fewer deliveries than `limit`.
		 *
		 * Needs the scope `webhooks:read`.
		 */
		deliveries: (id: string, query: WebhookDeliveriesQuery = {}, options: CallOptions = {}): Items<WebhookDeliveriesItem> =>
			this.pages(`/v1/webhooks/${encodeURIComponent(id)}/deliveries`, {query}, options),
		/**
		 * Replay a delivery.
		 *
		 * Posts it again whatever its state, up to five times; the body may be left out.
		 *
		 * Needs the scope `webhooks:manage`.
		 */
		replayDelivery: (id: string, body: WebhookReplayDeliveryBody, options: CallOptions = {}): Promise<WebhookDeliveriesItem> =>
			this.call('POST', `/v1/webhooks/deliveries/${encodeURIComponent(id)}/replay`, 'json', {body}, options),
	};
}
