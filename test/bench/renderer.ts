import process from 'node:process';
import {parseArgs} from 'node:util';
import {generateSigningKeys, importSigningKey} from '../../src/compose/dkim.ts';
import {createLinks} from '../../src/compose/links/links.ts';
import {compileVariant, type VariantSource} from '../../src/compose/render/compile.ts';
import {createRenderer} from '../../src/compose/render/render.ts';
import {MessageComposer} from '../../src/daemon/threads/message-composer.ts';
import {systemClock} from '../../src/kit/clock.ts';
import {pooledRandom} from '../../src/mail/ids.ts';
import type {MakeJob, MakeResult} from '../../src/queue/renderers.ts';
import {claimedMail} from '../helpers/claimed-mail.ts';
import {itemReceipt, receipt} from './receipts.ts';

// CPU time of making one mail, all threads of V8 included:
// `node dist/test/bench/renderer.js [--mails N] [--rounds N] [--only NAME]`.

const {values: options} = parseArgs({
	options: {mails: {type: 'string', default: '800'}, rounds: {type: 'string', default: '9'}, only: {type: 'string'}},
});
const mails = Number(options.mails);

const pem = await generateSigningKeys();
const signing = (['rsa', 'ed25519'] as const).map(kind =>
	importSigningKey({
		domain: 'shop.example',
		selector: `s-${kind}`,
		algorithm: `${kind}-sha256`,
		privateKeyPem: pem[kind],
	}),
);

async function rendererOf(source: VariantSource): Promise<(job: MakeJob) => MakeResult> {
	const compiled = await compileVariant(source);
	if (!compiled.ok) {
		throw new Error(JSON.stringify(compiled.violations));
	}
	const keys = {current: 1, keys: {1: Buffer.alloc(32, 7)}};
	const maker = new MessageComposer({
		links: createLinks({keys, publicUrl: 'https://mail.example', random: pooledRandom()}),
		renderer: createRenderer(),
		tokenLifetimeMs: 90 * 86_400_000,
		isListening: true,
		canReceiveReplies: true,
		senderId: 'bench',
		cfbl: {own: 'fbl@bounces.mail.example', isListening: true},
		clock: systemClock,
	});
	const variants = [{...compiled, id: 'tpv/0', locale: null}];
	return job => maker.make(job, {variants, signing});
}

function jobOf(number: number, data: unknown): MakeJob {
	const id = number.toString().padStart(26, '0');
	const address = `user${number}@example.com`;
	return {
		recipient: claimedMail({
			...{id: `rcp_${id}`, message_id: `msg_${id}`, workspace_id: `ws_${id.replaceAll('9', '8')}`},
			...{template_id: 'tpl_00000000000000000000000001', version_id: 'tpv', data: JSON.stringify(data)},
			...{address, to_address: address, from_address: 'receipts@shop.example', workspace_name: 'bench'},
			created_at: new Date().toISOString(),
		}),
		variables: null,
		linkHost: null,
		attachments: [],
		signing: 'dkm_1,dkm_2',
		returnPathDomain: 'bounces.mail.example',
	};
}

async function measure(name: string, source: VariantSource, dataOf: (number: number) => unknown): Promise<void> {
	const make = await rendererOf(source);
	const jobs = Array.from({length: mails}, (_, number) => jobOf(number, dataOf(number)));
	let octets = 0;
	const makeAll = () => {
		for (const job of jobs) {
			const result = make(job);
			if (!result.ok) {
				throw new Error(result.unmade.message);
			}
			octets = result.message.mail.length;
		}
	};
	makeAll();
	const rounds = Array.from({length: Number(options.rounds)}, () => {
		const before = process.cpuUsage();
		makeAll();
		const {user, system} = process.cpuUsage(before);
		return (user + system) / mails;
	}).toSorted((a, b) => a - b);
	const [least, middle] = [rounds[0], rounds[rounds.length >> 1]].map(cpu => cpu?.toFixed(0));
	console.log(`${name}: ${middle} µs CPU/mail (least ${least}), ${octets} octets`);
}

for (const {name, source, dataOf} of [receipt, itemReceipt]) {
	if (options.only === undefined || options.only === name) {
		await measure(name, source, dataOf);
	}
}
