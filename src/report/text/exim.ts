import {findAddresses, sameAddress} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';
import {readListed} from './listed.ts';

const announced =
	/^.{0,200}(?:following address(?:\(es\)|es)?|address(?:es)? to which the message)[^\n]{0,80}(?:\n[^\n]{0,40})?(?:failed|delivered (?:is|are)|delivered)[^\n]{0,20}$/im;
const exim =
	/created automatically by mail delivery software|A message that you (?:have )?sent (?:could not|has not|to the following)|following address(?:\(es\)|es)?\s{1,4}(?:failed|have not)/i;

/**
 * Exim and what speaks like it (GMX, 1&1, mail.ru, MXLogic): `X-Failed-Recipients`, and a list in which each address has its reason
 * below it, indented.
 */
export const readExim: Detector = ({field, said, senders}) => {
	const failed = findAddresses(field('x-failed-recipients')).map(({address}) => address);
	if (failed.length === 0 && !exim.test(said)) {
		return [];
	}
	// mail.ru says it all twice; the second time in English.
	const listed = readListed(said, {after: announced});
	const found = listed.length > 0 ? listed : readListed(said, {except: failed.length > 0 ? [] : senders});
	if (failed.length === 0) {
		return found;
	}
	return failed.map(
		(recipient): Finding =>
			found.find(finding => finding.recipient !== null && sameAddress(finding.recipient, recipient)) ??
			found.find(
				({originalRecipient}) => originalRecipient !== undefined && sameAddress(originalRecipient, recipient),
			) ?? {
				recipient,
				text: said,
			},
	);
};
