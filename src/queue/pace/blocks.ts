import {hourMs} from '../../kit/time.ts';
import type {BounceCategory} from '../../mail/outcome.ts';
import type {PaceReaction} from '../../mail/route.ts';

/** The reaction to a mail server that rejects everything from our address: every further message would be lost. */
export const blockReaction: PaceReaction = {
	kind: 'suspend',
	forMs: 2 * hourMs,
	advice:
		'find out why our address is blocked (mailctl doctor checks blocklists), ' +
		"then ask the provider's postmaster to unblock it",
};

const emailAddresses = /[^\s<>]{1,128}@[^\s<>]{1,253}/g;
const links = /https?:\/\/\S{1,2000}/gi;

/** Our IP address, as a number or in words. */
const ourAddress = /\bips?\b|\b(?:\d{1,3}\.){3}\d{1,3}\b|\[[\da-f:]{3,45}\]/i;
/** Our host name or network. */
const ourHost = /\b(?:client|hosts?|servers?|mta|network|subnet|netblock|asn|connections?|country|region)\b/i;
/** The sender's address or domain: the rejection does not concern mail from other domains. */
const senderPart = /\b(?:sender|from|return)[ -]?(?:address|domain|path)\b|\b(?:domains?|dbl|rhsbl)\b/i;
/** The recipient or the content: the rejection does not concern other messages. */
const messagePart =
	/\b(?:user|recipient|addressee|mailbox|account|content|subject|attachments?|urls?|virus|phishing)\b/i;
/** A message or its sender. It only counts if the reply does not name our address or host. */
const messageOrSender = /\b(?:messages?|mails?|e-?mails?|spam|senders?)\b/i;

/**
 * Whether a permanent rejection (`reply` begins with its code) is about our IP address, so that every other message
 * would be rejected too. A rejection at MAIL is classified as one of the sender, so it must name our address.
 */
export function isBlock(category: BounceCategory, reply: string): boolean {
	const text = reply.replace(emailAddresses, '').replace(links, '');
	if (senderPart.test(text) || messagePart.test(text)) {
		return false;
	}
	// A link may name our address as well: `https://lists.example/?ip=192.0.2.1`.
	const isAboutUs = ourAddress.test(reply.replace(emailAddresses, '')) || ourHost.test(text);
	switch (category) {
		case 'block':
		case 'reputation':
			return isAboutUs || !messageOrSender.test(text);
		case 'sender':
			return isAboutUs && blockWords.test(text);
		default:
			return false;
	}
}

const blockWords = /\b(?:block\w{0,5}|bann?ed|black ?-?list\w{0,3}|listed|reputation|not allowed|denied|no access)\b/i;
