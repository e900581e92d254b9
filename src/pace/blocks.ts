import {hourMs} from '../kit/time.ts';
import type {BounceCategory} from '../mail/outcome.ts';
import type {PaceReaction} from '../mail/route.ts';

/** What follows where a host refuses whatever comes from our address: each further message would be lost. */
export const blockReaction: PaceReaction = {
	kind: 'suspend',
	forMs: 2 * hourMs,
	advice: 'find out why our address is blocked (mailctl doctor asks the blocklists), then ask the postmaster of the provider to unblock it',
};

const addresses = /[^\s<>]{1,128}@[^\s<>]{1,253}/g;
const links = /https?:\/\/\S{1,2000}/gi;

/** Our IP address, as a number or in words. */
const ourAddress = /\bips?\b|\b(?:\d{1,3}\.){3}\d{1,3}\b|\[[\da-f:]{3,45}\]/i;
/** Our host or its network. */
const ourHost = /\b(?:client|hosts?|servers?|mta|network|subnet|netblock|asn|connections?|country|region)\b/i;
/** One sender, one recipient, or what a message contains: nothing about all that we send. */
const oneOfMany =
	/\b(?:sender|from|return)[ -]?(?:address|domain|path)\b|\bdomains?\b|\bdbl\b|\brhsbl\b|\b(?:user|recipient|addressee|mailbox|account|content|subject|attachments?|urls?|virus|phishing)\b/i;
/** One message or its sender, unless the reply names our address or host too. */
const oneMessage = /\b(?:messages?|mails?|e-?mails?|spam|senders?)\b/i;

/**
 * Whether a refusal for good (its code first) means our IP address, so that the host refuses every other message too. A
 * refusal at MAIL is counted as one of the sender; there our address has to be named.
 */
export function isBlock(category: BounceCategory, reply: string): boolean {
	const words = reply.replace(addresses, '').replace(links, '');
	if (oneOfMany.test(words)) {
		return false;
	}
	// A link names our address as well: `https://lists.example/?ip=192.0.2.1`.
	const isOurs = ourAddress.test(reply.replace(addresses, '')) || ourHost.test(words);
	switch (category) {
		case 'block':
		case 'reputation':
			return isOurs || !oneMessage.test(words);
		case 'sender':
			return isOurs && blocked.test(words);
		default:
			return false;
	}
}

const blocked = /\b(?:block\w{0,5}|bann?ed|black ?-?list\w{0,3}|listed|reputation|not allowed|denied|no access)\b/i;
