// Plays what rbd_jax/view/player.py wrote into the page: the surfaces of a model, and where its bodies are over time.
//
// The vertices of all surfaces are in one buffer, each with the number of its body; the poses of the bodies are in a texture, a row
// for the sample that is played and one for each ghost. So whatever the model, a frame is a handful of draw calls: the shadow
// map, the grounds, what is opaque, what is translucent one after the other from far to near, ghosts, and marks on top.
// Lengths are in metres, z is up, quaternions have their scalar first.
"use strict";

// Vectors, and matrices of sixteen numbers column by column, as WebGL has them.

const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const scaled = (a, s) => [s * a[0], s * a[1], s * a[2]];
const norm = (a) => Math.hypot(...a);
const unit = (a) => scaled(a, 1 / (norm(a) || 1));
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

function turned([w, ...axis], v) {
  return add(v, cross(axis, add(cross(axis, v), v, w)), 2);
}

function turnedBy([a, ...u], [b, ...v]) {
  return [a * b - dot(u, v), ...add(add(cross(u, v), u, b), v, a)];
}

function times(a, b) {
  const c = new Float32Array(16);
  for (let j = 0; j < 4; j++)
    for (let i = 0; i < 4; i++) for (let k = 0; k < 4; k++) c[4 * j + i] += a[4 * k + i] * b[4 * j + k];
  return c;
}

function lookingAlong(back, up, eye) {
  const z = unit(back), x = unit(cross(up, z)), y = cross(z, x);
  return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
}

// height: of the picture, one away.
function perspective(height, aspect, near, far) {
  const f = 2 / height, m = new Float32Array(16);
  m[0] = f / aspect, m[5] = f, m[10] = (near + far) / (near - far), m[11] = -1, m[14] = (2 * near * far) / (near - far);
  return m;
}

// What was written, as arrays of numbers.

const KINDS = { int8: Int8Array, int16: Int16Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };

function numbers(packed) {
  const text = atob(packed.data), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  const raw = new KINDS[packed.kind](bytes.buffer);
  if (!packed.scale) return raw;
  // Integers stand for steps between the least and the greatest number of each column.
  const { offset, scale } = packed, columns = scale.length, found = new Float64Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = offset[i % columns] + raw[i] * scale[i % columns];
  return found;
}

// The motion of one sample.

class Motion {
  constructor(sample, bodies) {
    this.number = sample.number;
    this.failure = sample.failure;
    this.end = sample.end; // of the slider; what failed has no poses up to there
    this.bodies = bodies;
    this.t = numbers(sample.t);
    this.position = numbers(sample.position);
    this.quaternion = numbers(sample.quaternion);
    this.path = numbers(sample.path); // of all of it, for a camera that follows
    this.curves = sample.curves.map(({ lines, ...curve }) => ({ ...curve, lines: lines.map((line) => ({ ...line, values: numbers(line.values) })) }));
    if (sample.pushes) {
      const { count, point, force } = sample.pushes;
      this.pushes = { point: numbers(point), force: numbers(force), first: [0] };
      for (const many of numbers(count)) this.pushes.first.push(this.pushes.first.at(-1) + many);
    }
  }

  get start() { return this.t[0]; }
  get last() { return this.t[this.t.length - 1]; }

  // The frame before a time, and how far on it is to the next, from 0 to 1.
  at(time) {
    let low = 0, high = this.t.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.t[middle] <= time) low = middle; else high = middle;
    }
    const span = this.t[high] - this.t[low];
    return [low, span > 0 ? clamp((time - this.t[low]) / span, 0, 1) : 0];
  }

  // Of many rows of `width` numbers, those from `column` on, on the chord between two frames.
  between(all, width, column, count, [row, share]) {
    const next = Math.min(row + 1, this.t.length - 1), found = [];
    for (let c = column; c < column + count; c++) found.push(all[width * row + c] + share * (all[width * next + c] - all[width * row + c]));
    return found;
  }

  pose(body, at) {
    const q = this.between(this.quaternion, 4 * this.bodies, 4 * body, 4, at), size = Math.hypot(...q) || 1;
    return { position: this.between(this.position, 3 * this.bodies, 3 * body, 3, at), quaternion: q.map((x) => x / size) };
  }

  whole(at) {
    return this.between(this.path, 3, 0, 3, at);
  }
}
