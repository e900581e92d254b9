import {resolve} from 'node:path';
import type {Program} from './daemon.ts';

/** A workspace that is ready to send: sender, templates and a key, made with the CLI as an operator would. */
export type Shop = {
	readonly from: string;
	/** The secret. */
	readonly key: string;
	/** Template ids by name. */
	readonly templates: ReadonlyMap<string, string>;
	/** What to publish for DKIM: TXT records by name. */
	readonly dkim: Readonly<Record<string, string>>;
};

type DomainRecord = {readonly type: string; readonly name: string; readonly value: string; readonly purpose: string};

/** Sets the workspace up in a fresh data folder, before any daemon runs on it. */
export async function openShop(program: Program, templateFolder: string): Promise<Shop> {
	await program.cliBytes('init');
	const domain = await program.cli<{records: DomainRecord[]}>('domain', 'add', 'shop.example');
	const sender = await program.cli<{address: string}>(
		...['sender', 'add', 'no-reply@shop.example', '--name', 'Kaffee & Größe', '--verified'],
	);
	const key = await program.cli<{key: string}>('key', 'create', '--name', 'flow');
	const templates = await program.cli<Array<{id: string; name: string}>>('template', 'push', resolve(templateFolder));
	return {
		from: sender.address,
		key: key.key,
		templates: new Map(templates.map(({name, id}) => [name, id])),
		dkim: Object.fromEntries(
			domain.records.filter(({purpose}) => purpose === 'dkim').map(({name, value}) => [name, value]),
		),
	};
}

/** One call of the API. */
export async function call(url: string, key: string, body?: unknown): Promise<{status: number; body: unknown}> {
	const response = await fetch(url, {
		method: body === undefined ? 'GET' : 'POST',
		headers: {authorization: `Bearer ${key}`, ...(body === undefined ? {} : {'content-type': 'application/json'})},
		...(body === undefined ? {} : {body: JSON.stringify(body)}),
	});
	return {status: response.status, body: await response.json()};
}

/** Runs `work` for every item, at most `width` at once. */
export async function eachOf<T>(items: Iterable<T>, width: number, work: (item: T) => Promise<void>): Promise<void> {
	const rest = items[Symbol.iterator]();
	const queue = async () => {
		for (let next = rest.next(); !next.done; next = rest.next()) {
			await work(next.value);
		}
	};
	await Promise.all(Array.from({length: width}, queue));
}
