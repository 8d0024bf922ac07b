"""Small sound files in every format that hark-audio reads.

Writes crates/audio/tests/files/: one second of a formula, mono or stereo, in each container and coding. The tests
compute the same formula, so the files hold nothing but what stands here. Lossless files hold it rounded to 16 or 24
bits, at low rates that keep the files small; lossy ones hold it at 44.1 or 48 kHz.

Made with ffmpeg 5.1.9 (Debian 7:5.1.9-0+deb12u1: libmp3lame 3.100, libvorbis 1.3.7, libopus 1.3.1; AAC, ALAC and
FLAC are ffmpeg's own). Other versions of the encoders write other bytes, which pass the tests as well.

    apt-get install ffmpeg
    python golden/audio_files.py
"""

import argparse
import math
import struct
import subprocess
from pathlib import Path

OUT = Path(__file__).parent.parent / "crates/audio/tests/files"
TITLE, ARTIST, COMMENT, DATE = "A rising tone", "Hark", "one second of a formula", "2024"
TAGS = [f"title={TITLE}", f"artist={ARTIST}", f"comment={COMMENT}", f"date={DATE}"]

# name: (rate, channels, bits of the source, ffmpeg arguments)
FILES = {
    "mono-16.wav": (4000, 1, 16, ["-c:a", "pcm_s16le"]),
    "stereo-24.wav": (4000, 2, 24, ["-c:a", "pcm_s24le"]),
    "adpcm-ms.wav": (8000, 1, 16, ["-c:a", "adpcm_ms"]),
    "adpcm-ima.wav": (8000, 2, 16, ["-c:a", "adpcm_ima_wav"]),
    "a-law.wav": (4000, 1, 16, ["-c:a", "pcm_alaw"]),
    "mu-law.wav": (4000, 1, 16, ["-c:a", "pcm_mulaw"]),
    "mono-16.aiff": (4000, 1, 16, ["-c:a", "pcm_s16be"]),
    "stereo-24.aiff": (4000, 2, 24, ["-c:a", "pcm_s24be"]),
    "sowt.aifc": (4000, 1, 16, ["-c:a", "pcm_s16le", "-f", "aiff"]),
    "mono-16.caf": (4000, 1, 16, ["-c:a", "pcm_s16be"]),
    "alac.caf": (8000, 1, 16, ["-c:a", "alac"]),
    "mono-16.flac": (16000, 1, 16, ["-c:a", "flac", "-metadata_header_padding", "16"]),
    "stereo-24.flac": (4000, 2, 24, ["-c:a", "flac", "-sample_fmt", "s32", "-bits_per_raw_sample", "24",
                                     "-metadata_header_padding", "16"]),
    "flac.oga": (16000, 1, 16, ["-c:a", "flac"]),
    "mono.mp3": (44100, 1, 16, ["-c:a", "libmp3lame", "-b:a", "64k"]),
    "stereo.mp3": (44100, 2, 16, ["-c:a", "libmp3lame", "-b:a", "64k"]),
    "mono.ogg": (44100, 1, 16, ["-c:a", "libvorbis", "-q:a", "3"]),
    "stereo.ogg": (44100, 2, 16, ["-c:a", "libvorbis", "-q:a", "1"]),
    "mono.opus": (48000, 1, 16, ["-c:a", "libopus", "-b:a", "24k"]),
    "stereo.opus": (48000, 2, 16, ["-c:a", "libopus", "-b:a", "40k"]),
    "surround.opus": (48000, 6, 16, ["-c:a", "libopus", "-b:a", "80k", "-mapping_family", "1"]),
    "surround.ogg": (44100, 6, 16, ["-c:a", "libvorbis", "-q:a", "0"]),
    "mono.m4a": (44100, 1, 16, ["-c:a", "aac", "-b:a", "48k"]),
    "stereo.m4a": (44100, 2, 16, ["-c:a", "aac", "-b:a", "64k"]),
    "alac.m4a": (8000, 1, 16, ["-c:a", "alac"]),
    "alac-24.m4a": (4000, 2, 24, ["-c:a", "alac", "-sample_fmt", "s32p", "-bits_per_raw_sample", "24"]),
    "surround.m4a": (48000, 6, 16, ["-c:a", "aac", "-b:a", "96k"]),
    "main.aac": (44100, 1, 16, ["-c:a", "aac", "-profile:a", "aac_main", "-b:a", "48k", "-f", "adts"]),
    "mono.aac": (44100, 1, 16, ["-c:a", "aac", "-b:a", "48k", "-f", "adts"]),
    "opus.mp4": (48000, 1, 16, ["-c:a", "libopus", "-b:a", "24k", "-strict", "-2"]),
    "opus.webm": (48000, 1, 16, ["-c:a", "libopus", "-b:a", "24k"]),
    "vorbis.webm": (44100, 1, 16, ["-c:a", "libvorbis", "-q:a", "3"]),
    "flac.mka": (16000, 1, 16, ["-c:a", "flac"]),
    "faststart.m4a": (44100, 1, 16, ["-c:a", "aac", "-b:a", "48k", "-movflags", "+faststart"]),
    "fragmented.mp4": (44100, 1, 16, ["-c:a", "aac", "-b:a", "48k", "-movflags", "+empty_moov+default_base_moof",
                                      "-frag_duration", "200000"]),
    "mp3.mp4": (44100, 1, 16, ["-c:a", "libmp3lame", "-b:a", "64k"]),
    "pcm.mov": (4000, 2, 24, ["-c:a", "pcm_s24le"]),
}
CHAINED = {"chained.ogg": "mono.ogg", "chained.opus": "mono.opus"}


def formula(t, channel):
    """A tone that rises from 200 Hz by 400 Hz in a second; each further channel begins higher and is quieter."""
    return 0.6 / (1 + channel) * math.sin(2 * math.pi * (200 + 150 * channel + 200 * t) * t)


def source(path, rate, channels, bits):
    """A plain WAV file of one second of the formula."""
    size = bits // 8
    full = 2 ** (bits - 1)
    samples = bytearray()
    for n in range(rate):
        for channel in range(channels):
            value = math.floor(formula(n / rate, channel) * full + 0.5)
            samples += value.to_bytes(size, "little", signed=True)
    frame = size * channels
    header = struct.pack("<HHIIHH", 1, channels, rate, rate * frame, frame, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(header)) + header + b"data" + struct.pack("<I", len(samples)) + samples
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def encode(name, rate, channels, bits, arguments):
    plain = OUT / "plain.wav"
    source(plain, rate, channels, bits)
    tags = [word for tag in TAGS for word in ("-metadata", tag)]
    layout = ["-ac", "6", "-channel_layout", "5.1"] if channels == 6 else []
    exact = ["-fflags", "+bitexact", "-flags:a", "+bitexact"]
    command = ["ffmpeg", "-v", "error", "-y", *layout, "-i", str(plain), *tags, *exact, *arguments, str(OUT / name)]
    subprocess.run(command, check=True)
    plain.unlink()
    print(f"{name}: {(OUT / name).stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files to make; all if none is named")
    wanted = parser.parse_args().names
    OUT.mkdir(parents=True, exist_ok=True)
    for name, recipe in FILES.items():
        if not wanted or name in wanted:
            encode(name, *recipe)
    for name, part in CHAINED.items():
        if not wanted or name in wanted:
            first = (OUT / part).read_bytes()
            (OUT / name).write_bytes(first + other_stream(first))
    print(f"{sum(f.stat().st_size for f in OUT.iterdir())} bytes in all")


def other_stream(ogg):
    """The same Ogg stream with another serial number: two streams of one number may not follow each other."""
    out = bytearray(ogg)
    at = 0
    while at < len(out):
        segments = out[at + 26]
        end = at + 27 + segments + sum(out[at + 27 : at + 27 + segments])
        out[at + 14] ^= 0x5A
        out[at + 22 : at + 26] = bytes(4)
        out[at + 22 : at + 26] = struct.pack("<I", checksum(out[at:end]))
        at = end
    return bytes(out)


def checksum(page):
    """The CRC-32 of Ogg pages: polynomial 0x04c11db7, no reflection, no final inversion."""
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return value


if __name__ == "__main__":
    main()
