import {constants} from 'node:os';

/**
 * Returns the system's name for an error, such as `ENOSPC`, or an empty text for other errors. libuv has no name for an
 * exceeded quota and calls it UNKNOWN.
 */
export function systemCode(error: unknown): string {
	const {code, errno} = Object(error) as NodeJS.ErrnoException;
	return errno === -constants.errno.EDQUOT ? 'EDQUOT' : String(code ?? '');
}
