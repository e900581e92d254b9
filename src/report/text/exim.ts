import {findAddresses, sameAddress} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';
import {readListed} from './listed.ts';

const announced =
	/^.{0,200}(?:following address(?:\(es\)|es)?|address(?:es)? to which the message)[^\n]{0,80}(?:\n[^\n]{0,40})?(?:failed|delivered (?:is|are)|delivered)[^\n]{0,20}$/im;
const exim =
	/created automatically by mail delivery software|A message that you (?:have )?sent (?:could not|has not|to the following)|following address(?:\(es\)|es)?\s{1,4}(?:failed|have not)/i;

const undisclosed =
	/^[ \t]{1,8}an undisclosed address[ \t]*\n[ \t]{1,12}\((?:ultimately )?generated from[ \t]{1,3}(?=[^\s@]{1,64}@)/gim;

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
	const listed = [...readListed(said, {after: announced}), ...readUndisclosed(said)];
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

/** Where an alias leads is nobody's business: the address that was sent to stands for it. */
function readUndisclosed(said: string): Finding[] {
	return [...said.matchAll(undisclosed)].slice(0, 100).flatMap(({index, 0: words}) => {
		const [found] = findAddresses(said.slice(index + words.length, index + words.length + 330));
		const rest = said.slice(index);
		return found === undefined ? [] : [{recipient: found.address, text: rest.slice(0, /\n[ \t]*\n/.exec(rest)?.index)}];
	});
}
