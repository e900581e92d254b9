import {findAddresses} from '../addresses.ts';
import type {Detector} from './finding.ts';

const announced = /There was an error delivering your mail to\s{1,4}/;
const dma = /DragonFly Mail Agent/;

/** The DragonFly Mail Agent of the BSDs: one recipient a bounce. */
export const readDragonfly: Detector = ({said}) => {
	const sentence = announced.exec(said);
	if (sentence === null || !dma.test(said)) {
		return [];
	}
	const rest = said.slice(sentence.index + sentence[0].length);
	const found = findAddresses(rest.slice(0, 400))[0];
	return found === undefined ? [] : [{recipient: found.address, text: rest.slice(found.end)}];
};
