import {createHash} from 'node:crypto';
import {createIdSource} from '../../src/mail/ids.ts';
import type {ActTools} from '../../src/mail/operator.ts';
import {createVault} from '../../src/store/sealed.ts';

export const testOperator = {actor: 'cli:ann', from: 'desk.example'};

/** Tools whose time moves only when the test says so. */
export function testTools(start = Date.parse('2026-06-09T10:00:00.000Z')): ActTools & {advance: (ms: number) => void} {
	let now = start;
	let drawn = 0;
	const clock = {now: () => now, monotonic: () => now};
	// Hashes of a counter: as many different bytes as are asked for, the same in each run.
	const random = (size: number) => {
		const parts: Buffer[] = [];
		for (let length = 0; length < size; length += 32) {
			parts.push(createHash('sha256').update(String(drawn++)).digest());
		}
		return Buffer.concat(parts).subarray(0, size);
	};
	return {
		clock,
		operator: testOperator,
		random,
		newId: createIdSource(clock),
		advance(ms) {
			now += ms;
		},
	};
}

export const testKeys = {current: 1, keys: {1: new Uint8Array(32).fill(7)}};
export const testVault = createVault(testKeys);

/** Returns the context of an operator of the installation. */
export const everywhere = (tools: ActTools) =>
	({face: 'cli', workspaceId: null, mode: 'live', tools, vault: async () => testVault}) as const;
