// SPDX-License-Identifier: Apache-2.0
// Vectors and rotations in space.
#pragma once

namespace ros2_dynid
{

struct Vec
{
  double x = 0.0, y = 0.0, z = 0.0;
};

inline Vec operator+(const Vec & a, const Vec & b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
inline Vec operator-(const Vec & a, const Vec & b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vec operator*(double s, const Vec & a) { return {s * a.x, s * a.y, s * a.z}; }
inline double dot(const Vec & a, const Vec & b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec cross(const Vec & a, const Vec & b)
{
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/// A rotation by its columns: the axes of the turned frame.
struct Rotation
{
  Vec i{1.0, 0.0, 0.0}, j{0.0, 1.0, 0.0}, k{0.0, 0.0, 1.0};
  Vec out(const Vec & v) const
  {
    return v.x * i + v.y * j + v.z * k;
  }  ///< R v: into the outer frame
  Vec in(const Vec & v) const
  {
    return {dot(i, v), dot(j, v), dot(k, v)};
  }  ///< R^T v: into the turned frame
};

inline Rotation operator*(const Rotation & a, const Rotation & b)
{
  return {a.out(b.i), a.out(b.j), a.out(b.k)};
}

}  // namespace ros2_dynid
