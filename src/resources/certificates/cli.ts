import {CliError} from '../../cli/fault.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {storeTime} from '../../kit/time.ts';
import {parseDomain} from '../../mail/address.ts';
import {liveDaemon} from '../../store/data-folder/daemon-file.ts';
import {renewAt, stateOf} from './renewal.ts';
import {renewCertificates} from './rules.ts';
import {type Certificate, findCertificate, listCertificates} from './store.ts';

export function certificateCommands(certificate: CliCommand): void {
	certificate
		.verb('list', 'List certificates and names that are waiting for one')
		.sample('mailctl certificate list')
		.does(async session => {
			const rows = await listCertificates(await session.reader());
			session.list(createNoun(session), rows);
		});

	certificate
		.verb('show <name>', 'Show the certificate of a name and the last renewal error')
		.sample('mailctl certificate show mail.example.com')
		.does<object, [string]>(async (session, _options, name) => {
			const row = await findCertificate(await session.reader(), normalizeName(name));
			if (row === undefined) {
				throw new CliError('data', `${name} has no certificate`, 'see mailctl certificate list');
			}
			session.printRow(createNoun(session), row);
		});

	certificate
		.verb('renew [name]', 'Renew a certificate now; every certificate if no name is given')
		.sample('mailctl certificate renew mail.example.com')
		.does<object, [string | undefined]>(async (session, _options, name) => {
			const {acme, databaseUrl, dataDir} = session.settings();
			const input = name === undefined ? {} : {name: normalizeName(name)};
			const names = await session.performAnywhere(renewCertificates, input);
			const isIdle = !acme || (databaseUrl === null && liveDaemon(dataDir) === null);
			session.show({renewing: names}, () => [
				...names,
				isIdle
					? 'A daemon with MAILCTL_ACME=true orders them when it starts.'
					: 'The daemon orders them now: mailctl certificate list shows the result.',
			]);
		});
}

const normalizeName = (name: string) => parseDomain(name.replace(/\.$/, '')) ?? name.toLowerCase();

const formatMinute = (time: string | null) => time && `${shortTime(time).slice(0, 16)} UTC`;
const renewTime = (row: Certificate): string | null => {
	const at = renewAt(row);
	return at === null ? null : storeTime(at);
};

function createNoun(session: Session): Noun<Certificate> {
	const state = (row: Certificate) => stateOf(row, session.tools.clock.now());
	return {
		none: 'no certificates; with MAILCTL_ACME=true, the daemon gets them',
		json: row => ({
			name: row.name,
			state: state(row),
			issuer: row.issuer,
			ca: row.directory,
			not_before: row.not_before,
			not_after: row.not_after,
			renew_at: renewTime(row),
			fault: row.fault ?? row.unused,
			updated_at: row.updated_at,
		}),
		fields: [
			{title: 'NAME', name: 'name', cell: row => row.name, cut: true},
			{title: 'STATE', name: 'state', cell: state},
			{title: 'EXPIRES', name: 'expires', cell: row => formatMinute(row.not_after)},
			{title: 'ISSUER', name: 'issuer', cell: row => row.issuer, cut: true},
			{title: 'CA', cell: row => row.directory && new URL(row.directory).host, cut: true},
			{name: 'CA', cell: row => row.directory},
			{name: 'starts', cell: row => formatMinute(row.not_before)},
			{name: 'renewed from', cell: row => formatMinute(renewTime(row))},
			{
				name: 'next attempt',
				cell: row => (row.fault === null || row.unused !== null ? undefined : formatMinute(row.next_try_at)),
			},
			{title: 'ERROR', name: 'error', cell: row => row.fault ?? row.unused ?? undefined, cut: true},
		],
	};
}
