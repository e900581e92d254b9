import {defaultReputationLimits, type ReputationLevel, type ReputationLimits} from '../../mail/reputation.ts';
import {listenOrOff} from '../addresses.ts';
import {
	allowed,
	boolean,
	count,
	domain,
	duration,
	list,
	mailAddress,
	type Parser,
	path,
	size,
	value,
} from '../parsers.ts';
import {optional, optionalList, setting} from '../setting.ts';
import {bounceMailbox, maskPassword} from '../urls.ts';

/** What a client may bring in an hour. */
type InboundAllowance = {readonly mails: number; readonly bytes: number};

/** `1000/200MiB`: mails, and octets of all of them. */
const inboundAllowance: Parser<InboundAllowance> = (text, cwd) => {
	const [mails, bytes, ...rest] = text.split('/');
	const most = count(1, 1_000_000_000)(mails ?? '', cwd);
	const octets = size(1)(bytes ?? '', cwd);
	return most.ok && octets.ok && rest.length === 0
		? value({mails: most.value, bytes: octets.value})
		: allowed('use mails/size such as 1000/200MiB, neither of them 0');
};

const use = 'use warn=5%/0.1%,pause=10%/0.5% (bounces/complaints), either or both, none of warn above pause, or off';

/** `warn=5%/0.1%,pause=10%/0.5%`: any subset; `off` is null. */
export const reputationLimits: Parser<ReputationLimits | null> = text => {
	if (text === 'off') {
		return value(null);
	}

	const limits: Record<keyof ReputationLimits, ReputationLevel> = {...defaultReputationLimits};
	for (const part of text.split(',')) {
		const [, name, bounces, complaints] = /^(warn|pause)=([\d.]+)%\/([\d.]+)%$/.exec(part.trim()) ?? [];
		const level = {bounces: share(bounces), complaints: share(complaints)};
		if (name === undefined || Number.isNaN(level.bounces + level.complaints)) {
			return allowed(use);
		}
		limits[name as keyof ReputationLimits] = level;
	}

	const {warn, pause} = limits;
	return warn.bounces <= pause.bounces && warn.complaints <= pause.complaints ? value(limits) : allowed(use);
};

/** The sender's id in Feedback-ID: Gmail takes 5 to 15 characters. */
export const senderId: Parser<string> = text =>
	/^[0-9A-Za-z]{5,15}$/.test(text) ? value(text) : allowed('use 5 to 15 letters and digits');

/** More than nothing, at most all, with up to three decimals. */
function share(percent = ''): number {
	const number = /^\d{1,3}(\.\d{1,3})?$/.test(percent) ? Number(percent) : Number.NaN;
	return number > 0 && number <= 100 ? number / 100 : Number.NaN;
}

const second = 1000;

/** What comes back: bounces, complaints, clicks, and what follows for a workspace. */
export const reports = {
	inboundListen: setting(
		'MAILCTL_INBOUND_LISTEN',
		'off',
		listenOrOff,
		'SMTP listener for bounces and feedback, such as `0.0.0.0:25`.',
	),
	inboundTlsCert: optional(
		'MAILCTL_INBOUND_TLS_CERT',
		'–',
		path,
		'PEM file with the certificate chain of the SMTP listener; without it no STARTTLS is offered.',
	),
	inboundTlsKey: optional(
		'MAILCTL_INBOUND_TLS_KEY',
		'–',
		path,
		'PEM file with the private key of MAILCTL_INBOUND_TLS_CERT.',
	),
	inboundAllowance: setting(
		'MAILCTL_INBOUND_ALLOWANCE',
		'1000/200MiB',
		inboundAllowance,
		'Mails and octets that a client (an IPv4 address, an IPv6 /64) may bring the SMTP listener in an hour without proving them by a token; ten times as much in all (docs/guide/inbound.md).',
	),
	returnPathDomain: optional(
		'MAILCTL_RETURN_PATH_DOMAIN',
		'`bounces.` + host of MAILCTL_PUBLIC_URL with the listener on, else MAILCTL_HOSTNAME',
		domain,
		'Domain of the signed return paths; a sender domain may have its own.',
	),
	feedbackAddress: optional(
		'MAILCTL_FEEDBACK_ADDRESS',
		'`fbl@` + return-path domain',
		mailAddress,
		'Address at which feedback reports (ARF) arrive.',
	),
	feedbackReporters: optionalList(
		'MAILCTL_FEEDBACK_REPORTERS',
		'–',
		list(domain),
		'Domains whose feedback reports count without a token of ours, by the address that they name: those whose DKIM signature they bear (`d=`), such as `arf.mail.yahoo.com`.',
	),
	bounceMailbox: optional(
		'MAILCTL_BOUNCE_MAILBOX',
		'–',
		bounceMailbox,
		'`imaps://user:password@host/INBOX`, `imap://…?tls=starttls|none` or `maildir:/path`: polled for bounces.',
		{mask: maskPassword},
	),
	bounceMailboxInterval: setting(
		'MAILCTL_BOUNCE_MAILBOX_INTERVAL',
		'5m',
		duration(second),
		'How often the bounce mailbox is polled; IDLE besides.',
	),
	bounceRulesFile: optional(
		'MAILCTL_BOUNCE_RULES_FILE',
		'`config/bounce-rules.json`, as shipped',
		path,
		'JSON file with rules by which refusals are read, before the shipped ones (docs/reference/bounces.md); SIGHUP reads it again.',
		{live: true},
	),
	tokenLifetime: setting(
		'MAILCTL_TOKEN_LIFETIME',
		'400d',
		duration(second),
		'How long unsubscribe and tracking links work.',
	),
	reputation: setting(
		'MAILCTL_REPUTATION',
		'warn=5%/0.1%,pause=10%/0.5%',
		reputationLimits,
		'Shares of hard bounces/complaints, over 24 hours and 7 days, from which on a workspace is warned of and paused (docs/reference/reputation.md); `off` judges nobody.',
		{live: true},
	),
	senderId: optional(
		'MAILCTL_SENDER_ID',
		'made from the return-path domain',
		senderId,
		'SenderId of the Feedback-ID field, by which Gmail counts complaints: 5 to 15 letters and digits, the same for good.',
	),
	cfbl: setting(
		'MAILCTL_CFBL',
		'false',
		boolean,
		'Ask for complaints in each mail (CFBL-Address, RFC 9477) where MAILCTL_FEEDBACK_ADDRESS, or with the listener the sender’s return path, is at the sender’s domain or under it.',
	),
};
