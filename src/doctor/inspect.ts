import {randomBytes} from 'node:crypto';
import {existsSync} from 'node:fs';
import {secretsFile} from '../config/secrets-file.ts';
import type {Settings} from '../config/settings.ts';
import {liveDaemon} from '../data-folder/daemon-file.ts';
import {secretsOf} from '../data-folder/ensure-secrets.ts';
import {openRecordSources} from '../dns/record-sources.ts';
import {createResolver} from '../dns/resolver.ts';
import type {Clock} from '../kit/clock.ts';
import {createLinks} from '../links/links.ts';
import type {NewId} from '../mail/ids.ts';
import {checksFor, type DoctorInput} from './doctor.ts';
import {examine, type Finding} from './finding.ts';
import {publicInterfaceAddresses} from './names.ts';
import {type OpenedStore, openForDoctor} from './store.ts';

/** Whom the checks ask unless the operator names others. */
export const usual = {
	targets: ['gmail.com', 'outlook.com'],
	blocklists: ['zen.spamhaus.org'],
	timeServer: {host: 'pool.ntp.org', port: 123},
} as const satisfies Partial<DoctorInput>;

const dnsTimeoutMs = 5000;

type InspectInput = Pick<DoctorInput, 'settings' | 'version' | 'returnPathChosen'> &
	Partial<Pick<DoctorInput, 'daemon' | 'targets' | 'blocklists' | 'timeServer'>> & {
		readonly tools: {readonly clock: Clock; readonly newId: NewId};
	};

/** Makes every check that fits the settings, beside a daemon or in it; it changes nothing. Takes up to a minute where nobody answers. */
export async function inspect(
	{settings, tools, ...input}: InspectInput,
	told: Parameters<typeof examine>[1],
): Promise<Finding[]> {
	const {clock} = tools;
	const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
	const store = await openForDoctor(settings);
	try {
		const checks = checksFor({
			...usual,
			// With PostgreSQL the daemon's data folder need not be the command's.
			daemon: settings.databaseUrl === null ? liveDaemon(settings.dataDir) : null,
			...input,
			settings,
			resolver,
			clock,
			store,
			selfToken: await selfToken(tools, settings, store),
			interfaceAddresses: publicInterfaceAddresses(),
			openSources: () =>
				openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
		});
		return await examine(checks, told);
	} finally {
		await store.store?.close();
	}
}

/** The return path of a copy that does not exist; null where no secrets are there yet: none are made to look. */
async function selfToken(
	{newId}: InspectInput['tools'],
	settings: Settings,
	{store}: OpenedStore,
): Promise<string | null> {
	if (store === null || (settings.databaseUrl === null && !existsSync(secretsFile(settings.dataDir)))) {
		return null;
	}
	const keys = await secretsOf(store, settings);
	const links = createLinks({keys, publicUrl: '', random: randomBytes});
	return links.returnPathLocal(newId('rcp'), `postmaster@${settings.returnPathDomain}`);
}
