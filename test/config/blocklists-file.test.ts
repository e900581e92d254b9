import {writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {blocklistsProblems, loadBlocklists} from '../../src/config/blocklists-file.ts';
import {ConfigError} from '../../src/config/config-error.ts';
import {delistLink, doesList} from '../../src/net/blocklist.ts';
import {temporaryFolder} from '../helpers/databases.ts';

const shipped = loadBlocklists({blocklistsFile: null});

test('ships blocklists of addresses and domains, each with a removal link', t => {
	t.deepEqual(blocklistsProblems({blocklistsFile: null}), []);
	const zones = (source: string) => shipped.filter(list => doesList(list, source)).map(({zone}) => zone);
	t.deepEqual(zones('192.0.2.1'), [
		'zen.spamhaus.org',
		'b.barracudacentral.org',
		'bl.spamcop.net',
		'psbl.surriel.com',
	]);
	t.deepEqual(zones('2001:db8::1'), ['zen.spamhaus.org']);
	t.deepEqual(zones('shop.example'), ['dbl.spamhaus.org', 'multi.surbl.org']);
	for (const list of shipped) {
		t.is(new URL(delistLink(list, '192.0.2.1')).protocol, 'https:', list.zone);
		t.true(list.refused.includes('127.255.255.252-255'), list.zone);
	}
});

test('merges the operator’s blocklists into the shipped ones by field; null removes one', async t => {
	const blocklistsFile = path.join(await temporaryFolder(t), 'lists.json');
	const own = {
		$comment: 'ours',
		'zen.spamhaus.org': {listed: ['127.0.0.2-9']},
		'bl.spamcop.net': null,
		'list.example': {
			...{name: 'Ours', kind: 'domain', listed: ['127.0.0.2'], refused: ['127.0.0.1']},
			delist: 'https://list.example/',
		},
	};
	writeFileSync(blocklistsFile, JSON.stringify(own));
	const lists = loadBlocklists({blocklistsFile});
	t.deepEqual(
		lists.map(({zone}) => zone),
		[...shipped.map(({zone}) => zone).filter(zone => zone !== 'bl.spamcop.net'), 'list.example'],
	);
	t.like(lists[0], {name: 'Spamhaus ZEN', listed: ['127.0.0.2-9'], refused: ['127.255.255.252-255']});
	t.like(lists.at(-1), {zone: 'list.example', name: 'Ours', test: ''});

	writeFileSync(blocklistsFile, '{"zen.spamhaus.org": {"kind": "address"}');
	t.throws(() => loadBlocklists({blocklistsFile}), {instanceOf: ConfigError, message: /cannot be read: .*JSON/});
	writeFileSync(blocklistsFile, '{"zen.spamhaus.org": {"kind": "address"}}');
	t.throws(() => loadBlocklists({blocklistsFile}), {message: /zen\.spamhaus\.org\.kind: use ip, ipv4 or domain$/});
});
