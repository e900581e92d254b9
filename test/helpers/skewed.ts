import {existsSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import type {Settings} from './daemon.ts';

/** The environment of a program whose wall clock is off, as `+60s`; null: Debian's libfaketime is not installed. */
export function skewedBy(offset: string): Settings | null {
	const library = readdirSync('/usr/lib')
		.map(triplet => join('/usr/lib', triplet, 'faketime', 'libfaketimeMT.so.1'))
		.find(existsSync);
	// Durations stay right: a wrong clock runs as fast as any.
	return library === undefined ? null : {LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1'};
}
