import {access, mkdir, readdir, rename, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import {storeTime} from '../kit/time.ts';
import {idBytes, idTime, isId} from '../mail/ids.ts';
import {type Outcome, type SmtpReply, smtpReply} from '../mail/outcome.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {Delivery} from './transaction.ts';

/** Returns the folder of captured messages within a data folder. */
export function capturedFolder(dataDir: string): string {
	return path.join(dataDir, 'captured');
}

/** Returns `<message time>-<recipient id>.eml`, so that a message written twice is one file. */
export function capturedName(recipientId: string): string {
	const time = storeTime(idBytes(recipientId).readUIntBE(0, 6)).replace(/[-:.]/g, '');
	return `${time}-${recipientId}.eml`;
}

/** Writes the message to a file in the folder, exactly as it would be transmitted, and reports it as delivered. */
export async function capture(folder: string, {recipientId, data}: Delivery): Promise<Outcome> {
	if (!isId('rcp', recipientId)) {
		throw new Error('a captured message needs a recipient id');
	}
	const file = path.join(folder, capturedName(recipientId));
	const partial = partialFile(folder, recipientId);
	try {
		// Not `recursive`: a data folder that was moved away must not reappear empty.
		await mkdir(folder, {mode: 0o700}).catch(ignoreExisting);
		await writeFile(partial, data, {mode: 0o600});
		await rename(partial, file);
		return {kind: 'delivered'};
	} catch (error) {
		// The operator can fix a full or read-only disk, so the message waits.
		const {code = 'unknown'} = error as NodeJS.ErrnoException;
		return {kind: 'deferred', category: 'system', reason: `the message could not be captured: ${code}`};
	}
}

/** Removes the captured messages of these recipients, if any. */
export async function removeCaptured(folder: string, recipientIds: readonly string[]): Promise<void> {
	const hasFolder = await access(folder).then(
		() => true,
		() => false,
	);
	for (const id of hasFolder ? recipientIds : []) {
		await rm(path.join(folder, capturedName(id)), {force: true});
		await rm(partialFile(folder, id), {force: true});
	}
}

/** Removes the captured messages of all recipients created from `from` until before `to`, in milliseconds. */
export async function removeCapturedOf(folder: string, from: number, to: number): Promise<void> {
	const names = await readdir(folder).catch(() => []);
	const ids = names.flatMap(name => /rcp_[0-9a-z]{26}(?=\.(?:eml|tmp)$)/.exec(name) ?? []);
	await removeCaptured(
		folder,
		ids.filter(id => idTime(id) >= from && idTime(id) < to),
	);
}

// A partial file remains if the process dies while writing.
function partialFile(folder: string, recipientId: string): string {
	return path.join(folder, `.${recipientId}.tmp`);
}

export const simulatorKinds = [
	'delivered',
	'bounced',
	'soft-bounced',
	'deferred',
	'complained',
	'suppressed',
	'errored',
	'opened',
	'clicked',
] as const;
type SimulatorKind = (typeof simulatorKinds)[number];

/** The wait after a simulated deferral, in milliseconds. It ignores the retry schedule. */
export const simulatorWaitMs = 1000;
const lastAttempt = 3;

/** Returns the result requested by the local part (`bounced+label@simulator.test`). Any other address is delivered. */
export function simulatorKind(address: string): SimulatorKind {
	const at = address.lastIndexOf('@');
	if (address.slice(at + 1).toLowerCase() !== simulatorDomain) {
		return 'delivered';
	}
	const [local = ''] = address.slice(0, at).toLowerCase().split('+');
	return simulatorKinds.find(kind => kind === local) ?? 'delivered';
}

/** Returns the simulated outcome of an attempt, counted from 1. */
export function simulate(kind: SimulatorKind, attempt: number): Outcome {
	switch (kind) {
		case 'bounced':
			return {
				kind: 'bounced',
				type: 'permanent',
				category: 'unknown_user',
				reason: '550 5.1.1 simulated: no such user',
				suppresses: true,
			};
		case 'soft-bounced':
			return attempt < lastAttempt
				? deferred('452 4.2.2 simulated: mailbox full')
				: {
						kind: 'bounced',
						type: 'transient',
						category: 'mailbox_full',
						reason: '452 4.2.2 simulated: mailbox still full',
						suppresses: false,
					};
		case 'deferred':
			return attempt < lastAttempt ? deferred('451 4.7.1 simulated: try again later') : {kind: 'delivered'};
		case 'suppressed':
			return {kind: 'suppressed', reason: 'simulated'};
		case 'errored':
			return {kind: 'errored', reason: 'simulated'};
		case 'delivered':
			return {kind: 'delivered'};
		case 'complained':
		case 'opened':
		case 'clicked':
			return {kind: 'delivered', follows: kind};
	}
}

/** Returns the simulated reply for the attempt record, or `null` if the message never reached a mail server. */
export function simulatedReply(outcome: Outcome): SmtpReply | null {
	switch (outcome.kind) {
		case 'delivered':
			return smtpReply(250, ['2.0.0 simulated: accepted']);
		case 'bounced':
		case 'deferred':
			return smtpReply(Number(outcome.reason.slice(0, 3)), [outcome.reason.slice(4)]);
		default:
			return null;
	}
}

function deferred(reason: string): Outcome {
	return {kind: 'deferred', category: 'undetermined', reason, waitMs: simulatorWaitMs};
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
	if (error.code !== 'EEXIST') {
		throw error;
	}
}
