import {constants} from 'node:os';

/**
 * The system's name of an error, `ENOSPC`; empty for other errors. libuv has no name for a used-up quota and calls it
 * UNKNOWN.
 */
export function systemCode(error: unknown): string {
	const {code, errno} = Object(error) as NodeJS.ErrnoException;
	return errno === -constants.errno.EDQUOT ? 'EDQUOT' : String(code ?? '');
}
