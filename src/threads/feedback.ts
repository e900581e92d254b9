import {isUnder} from '../net/host-name.ts';
import type {MakeJob} from '../queue/renderers.ts';

/** Mail that refers to no topic. */
const plainStream = 'transactional';

/**
 * The value of Feedback-ID, by which Gmail counts complaints: template, workspace, topic, and who sends (at the right).
 * Nothing in it identifies a recipient (R3.20).
 */
export function feedbackIdOf({templateId, workspaceId, topicCode}: MakeJob, senderId: string): string {
	return [templateId, workspaceId, topicCode ?? plainStream, senderId].join(':');
}

/** Where feedback reports may be sent. */
export type FeedbackAddresses = {
	/** MAILCTL_FEEDBACK_ADDRESS. */
	readonly own: string;
	/** Whether `fbl@` at each return-path domain is answered. */
	readonly listening: boolean;
};

/**
 * The CFBL-Address of a recipient's mail: the first with the sender's domain or one under it, so that the sender's signature covers it
 * (RFC 9477 §3.1); null: none is.
 */
export function cfblAddressOf({from, returnPathDomain}: MakeJob, {own, listening}: FeedbackAddresses): string | null {
	const addresses = listening ? [own, `fbl@${returnPathDomain}`] : [own];
	return addresses.find(address => isUnder(domainOf(address), domainOf(from))) ?? null;
}

/** What stands after the `@`. */
export function domainOf(address: string): string {
	return address.slice(address.lastIndexOf('@') + 1);
}
